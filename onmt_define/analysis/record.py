"""What a correlation analysis leaves behind: CSV, JSON, pictures, and a table to print."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onmt_define.analysis.correlation import CorrelationMap, correlation_maps
from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.trained_models import read_model

COLUMNS = ("embedding", "stage", "width", "groups", "off-diagonal", "centred", "between groups")


def analyse(model: str | Path, folder: str | Path) -> list[dict[str, Any]]:
    """Write correlation.csv, correlation.json and the pictures of a model's input layers.

    Returns:
        One row a stage of each layer, by `COLUMNS`: the mean absolute correlation between its
        dimensions, the same of centred columns, and that between dimensions of different groups,
        all from 0 to 1.

    Raises:
        UserError: a file that can't be read as a model, or weights that are not finite.
    """
    from onmt_define.analysis.pictures import write_pictures  # matplotlib isn't everywhere

    folder = Path(folder)
    if folder.is_file():
        raise UserError(f"--output: {folder} is a file, expected a folder")
    trained = read_model(model)
    rows = []
    for name, layer in trained.layers.items():
        maps = correlation_maps(layer)
        for one in maps:
            if not one.values.isfinite().all():
                raise UserError(f"{model}, {name} embedding: the {one.stage} is not finite")
        write_pictures(name, maps, folder)
        rows += _rows(name, maps)
    with complete_or_absent(folder / "correlation.csv") as part:
        _write_csv(part, rows)
    record = {
        "kind": "correlation",
        "model": str(model),
        "embedding_type": trained.embedding_type,
        "stages": rows,
    }
    with complete_or_absent(folder / "correlation.json") as part:
        part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", "utf-8")
    return rows


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table for the terminal."""
    cells = [list(COLUMNS), *([_text(row[column]) for column in COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if index < 2 else text.rjust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def _rows(name: str, maps: Sequence[CorrelationMap]) -> list[dict[str, Any]]:
    return [
        dict(
            zip(
                COLUMNS,
                (
                    *(name, one.stage, one.width, one.groups),
                    *(one.off_diagonal, one.centred_off_diagonal, one.between_groups),
                ),
                strict=True,
            )
        )
        for one in maps
    ]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)

"""What `onmt_define correlation` and `onmt_define compress` left beside the models of the runs.

Neither is expected of a run: where nothing was left, nothing is missing. What is left but can't be
read is listed as missing, with its reason.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onmt_define.report.records import Missing, Results, Run, read_json_object
from onmt_define.report.tables import MISSING, NOT_APPLICABLE, Cell, Column, Row, Table, by_name

CORRELATION = "correlation/correlation.json"
COMPRESSIONS = "compressed*.json"


@dataclass(frozen=True)
class Analysis:
    """One record of a run: where it lies and what it holds."""

    run: Run
    path: Path
    record: dict[str, Any]


@dataclass(frozen=True)
class Analyses:
    """The records of all runs, in the config's order."""

    correlations: tuple[Analysis, ...]
    compressions: tuple[Analysis, ...]


def read_analyses(results: Results, folder: Path, missing: list[Missing]) -> Analyses:
    """Read the records below `folder`, which is results/{name}."""
    runs = [("mt", run) for run in results.translation]
    runs += [("lm", run) for run in results.language_models]
    correlations: list[Analysis] = []
    compressions: list[Analysis] = []
    for kind, run in runs:
        place = folder / kind / run.name / f"seed{run.seed}"
        for found, pattern, expected, parts in (
            (correlations, CORRELATION, "correlation", "stages"),
            (compressions, COMPRESSIONS, "compression", "layers"),
        ):
            for path in sorted(place.glob(pattern)):
                try:
                    record = read_json_object(path)
                    if record.get("kind") != expected or not record.get(parts):
                        raise ValueError(f"file is no record of a {expected}")
                    found.append(Analysis(run, path, record))
                except ValueError as error:
                    missing.append(Missing(str(path.relative_to(folder)), str(error)))
    return Analyses(tuple(correlations), tuple(compressions))


def correlation_table(analyses: Sequence[Analysis]) -> Table:
    """One row a stage of each input layer (section 4.3, Appendix B)."""
    columns = (
        Column("run", "run"),
        Column("seed", "seed"),
        Column("embedding", "embedding"),
        Column("stage", "stage"),
        Column("width", "width", "integer"),
        Column("groups", "groups", "integer"),
        Column("off-diagonal", "mean correlation between dimensions", "decimal3", "0 to 1"),
        Column("centred", "the same, columns centred", "decimal3", "0 to 1"),
        Column("between groups", "mean between groups", "decimal3", "0 to 1"),
    )
    rows = []
    for analysis in analyses:
        for stage in _dicts(analysis.record["stages"]):
            groups = _number(stage.get("groups"))
            between = NOT_APPLICABLE if groups == 1 else _number(stage.get("between groups"))
            cells: dict[str, Cell] = {
                "run": analysis.run.name,
                "seed": analysis.run.seed,
                "embedding": str(stage.get("embedding", MISSING)),
                "stage": str(stage.get("stage", MISSING)),
                "width": _number(stage.get("width")),
                "groups": groups,
                "off-diagonal": _number(stage.get("off-diagonal")),
                "centred": _number(stage.get("centred")),
                "between groups": between,
            }
            rows.append(Row(cells))
    return Table("correlation", columns, tuple(rows))


def compression_table(analyses: Sequence[Analysis]) -> Table:
    """One row a compressed input layer (Table 5); scores are those of the whole model."""
    columns = (
        Column("run", "run"),
        Column("seed", "seed"),
        Column("layer", "layer"),
        Column("embedding", "embedding"),
        Column("coding", "codebooks x codewords"),
        Column("table", "look-up table", "decimal2", "MB"),
        Column("compressed", "codes and codebooks", "decimal2", "MB"),
        Column("error", "error, part of the variance", "decimal1", "%"),
        Column("metric", "score"),
        Column("before", "before", "decimal2"),
        Column("after", "after", "decimal2"),
        Column("ms before", "time per batch before", "decimal1", "ms"),
        Column("ms after", "time per batch after", "decimal1", "ms"),
        Column("batch", "batch"),
        Column("lookup before", "look-up before", "decimal2", "ms/1,024 tokens"),
        Column("lookup after", "look-up after", "decimal2", "ms/1,024 tokens"),
        Column("file before", "model file before", "decimal1", "MB"),
        Column("file after", "model file after", "decimal1", "MB"),
    )
    rows = [
        Row({**_compression_cells(analysis), **_layer_cells(name, layer)})
        for analysis in analyses
        for name, layer in _dict(analysis.record["layers"]).items()
    ]
    return Table("compression", columns, tuple(rows))


def correlation_pictures(analyses: Sequence[Analysis]) -> Iterator[tuple[str, str, Path]]:
    """Name, caption and SVG file of each picture: the first analysed seed of each run."""
    for of_run in by_name([analysis.run for analysis in analyses]).values():
        analysis = next(one for one in analyses if one.run is of_run[0])
        for svg in sorted(analysis.path.parent.glob("*.svg"), key=lambda path: path.stem):
            side = svg.stem.removesuffix("-groups")
            what = "between the groups of" if svg.stem != side else "of"
            caption = (
                f"{analysis.run.name}: correlation maps {what} the stages of the {side} embedding."
            )
            yield f"correlation_{analysis.run.name}_{svg.stem}", caption, svg


def _compression_cells(analysis: Analysis) -> dict[str, Cell]:
    record = analysis.record
    score, size = _dict(record.get("score")), _dict(record.get("file_bytes"))
    absent = MISSING if score else NOT_APPLICABLE
    return {
        "run": analysis.run.name,
        "seed": analysis.run.seed,
        "embedding": str(record.get("embedding_type", MISSING)),
        "coding": f"{record.get('codebooks', '?')} x {record.get('codes', '?')}",
        "metric": str(score.get("metric", absent)),
        "before": _number(score.get("before"), absent),
        "after": _number(score.get("after"), absent),
        "ms before": _number(_dict(score.get("ms_per_batch")).get("before"), absent),
        "ms after": _number(_dict(score.get("ms_per_batch")).get("after"), absent),
        "batch": str(score.get("batch", absent)),
        "file before": _scaled(size.get("before"), 1e-6),
        "file after": _scaled(size.get("after"), 1e-6),
    }


def _layer_cells(name: str, layer: Any) -> dict[str, Cell]:
    layer = _dict(layer)
    lookup = _dict(layer.get("lookup_ms"))
    return {
        "layer": name,
        "table": _scaled(layer.get("table_bytes"), 1e-6),
        "compressed": _scaled(layer.get("compressed_bytes"), 1e-6),
        "error": _scaled(layer.get("error"), 100),
        "lookup before": _number(lookup.get("before")),
        "lookup after": _number(lookup.get("after")),
    }


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _number(value: Any, absent: Cell = MISSING) -> Cell:
    usable = type(value) in (int, float) and math.isfinite(value)
    return value if usable else absent


def _scaled(value: Any, factor: float) -> Cell:
    number = _number(value)
    return number if number == MISSING else number * factor

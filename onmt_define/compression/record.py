"""The record of a compression: a JSON file for the report, and a few lines for the terminal."""

import json
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent


def record_path(model: str | Path) -> Path:
    """The record of a compressed model, beside it.

    Raises:
        UserError: the model would lie there itself, or another record does.
    """
    path = Path(model).with_suffix(".json")
    if path == Path(model):
        raise UserError(f"--output is {model}, but there its record is kept; expected a .pt file")
    if path.exists() and _kind(path) != "compression":
        raise UserError(
            f"--output is {model}, but its record would replace {path}; expected another name"
        )
    return path


def _kind(path: Path) -> Any:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content.get("kind") if isinstance(content, dict) else None


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record as JSON, complete or not at all."""
    with complete_or_absent(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", "utf-8")


def describe(record: dict[str, Any]) -> str:
    """What was compressed, how small and how exact it is, and how fast it is looked up."""
    lines = [
        f"compressed {record['model']} (embedding_type {record['embedding_type']}) into "
        f"{record['output']}: {record['codebooks']} codebooks of {record['codes']} codewords, "
        f"{record['seconds']:.0f} s on {record['device']}"
    ]
    for name, layer in record["layers"].items():
        lookup = layer["lookup_ms"]
        lines += [
            f"{name:7} {layer['tokens']:,} x {layer['width']}: as a table "
            f"{_megabytes(layer['table_bytes'])}, as trained {_megabytes(layer['trained_bytes'])}, "
            f"compressed {_megabytes(layer['compressed_bytes'])}",
            f"        error {layer['error']:.1%} of the variance ({layer['learned_error']:.1%} "
            f"before refining); 1,024 tokens looked up in {lookup['before']:.2f} -> "
            f"{lookup['after']:.2f} ms",
        ]
    size = record["file_bytes"]
    lines.append(f"file    {_megabytes(size['before'])} -> {_megabytes(size['after'])}")
    if score := record.get("score"):
        lines.append(
            f"score   {score['metric']} {_number(score['before'])} -> {_number(score['after'])} in "
            f"{score['seconds']['before']:.1f} -> {score['seconds']['after']:.1f} s, "
            f"{_number(score['ms_per_batch']['before'])} -> "
            f"{_number(score['ms_per_batch']['after'])} ms for {score['batch']} "
            f"({', '.join(score['files'])})"
        )
    return "\n".join(lines)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"

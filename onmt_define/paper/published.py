"""The paper's tables: what they print, and the settings of each row that can be built.

The files below `tables/` are described, key by key, in `table.schema.yaml`.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.schema import load_yaml, validate

TABLES = Path(__file__).with_name("tables")
SCHEMA = Path(__file__).with_name("table.schema.yaml")

Settings = dict[str, Any]


@dataclass(frozen=True)
class PublishedRow:
    """One row; numbers are texts with the printed digits, parameters in millions.

    Attributes:
        id: table and row, for example table1a/R3.
        printed: numbers of the published version (v2), without those that it leaves out.
        printed_v1: numbers that the anonymous submission (v1) prints otherwise.
        settings: what builds and trains the model; None for another work's model.
        counted_settings: the settings that give the printed count, where the text's don't.
        counted_as: what these change, in a few words.
        count_remark: why the printed count isn't met, or what meeting it takes.
    """

    id: str
    name: str
    printed: dict[str, Any]
    printed_v1: dict[str, Any]
    settings: Settings | None
    counted_settings: Settings | None
    counted_as: str | None
    count_remark: str | None
    remark: str | None


@dataclass(frozen=True)
class PublishedTable:
    """One table; `number` is v2's, for example 1a, `v1_number` None where v1 lacks the table."""

    number: str
    v1_number: str | None
    title: str
    section: str
    corpus: str
    remark: str | None
    rows: tuple[PublishedRow, ...]


@cache
def load_tables() -> dict[str, PublishedTable]:
    """All tables by their number in v2, in the paper's order."""
    documents = {path.stem: read_table(path) for path in sorted(TABLES.glob("*.yaml"))}
    return {
        stem.removeprefix("table"): _table(stem, document, documents)
        for stem, document in documents.items()
    }


def read_table(path: str | Path) -> dict[str, Any]:
    """Read one table's file and check it against the schema.

    Raises:
        UserError: naming the file, the key, what was found and what is expected.
    """
    document = load_yaml(path)
    validate(document, _schema(), str(path))
    return document


@cache
def _schema() -> dict[str, Any]:
    return load_yaml(SCHEMA)


def find_row(row_id: str) -> PublishedRow:
    """The row with an id such as table1a/R3; `UserError` with the nearest id if there is none."""
    rows = {row.id: row for table in load_tables().values() for row in table.rows}
    if row_id not in rows:
        near = difflib.get_close_matches(row_id, rows, n=1)
        hint = f"did you mean {near[0]}?" if near else "expected an id such as table1a/R3"
        raise UserError(f"the paper has no row {row_id!r}, {hint}")
    return rows[row_id]


def _table(
    stem: str, document: dict[str, Any], documents: Mapping[str, dict[str, Any]]
) -> PublishedTable:
    return PublishedTable(
        number=stem.removeprefix("table"),
        v1_number=document["v1_table"],
        title=document["title"],
        section=document["section"],
        corpus=document["corpus"],
        remark=document.get("remark"),
        rows=tuple(_row(f"{stem}/{key}", documents) for key in document["rows"]),
    )


def _row(row_id: str, documents: Mapping[str, dict[str, Any]]) -> PublishedRow:
    stem, key = row_id.split("/")
    document = documents[stem]
    row = document["rows"][key]
    own: Settings | None = row.get("settings")
    base = _row(row["based_on"], documents) if "based_on" in row else None
    if base:
        settings = merge(base.settings or {}, own or {})
    else:
        settings = merge(document.get("settings", {}), own) if own is not None else None

    counted_settings, counted_as = None, None
    if "counted_as" in row:
        counted_settings = merge(settings or {}, row["counted_as"]["settings"])
        counted_as = row["counted_as"]["name"]
    elif base and base.counted_settings:
        counted_settings = merge(base.counted_settings, own or {})
        counted_as = base.counted_as
    return PublishedRow(
        id=row_id,
        name=row["name"],
        printed=row["printed"],
        printed_v1=row.get("printed_v1", {}),
        settings=settings,
        counted_settings=counted_settings,
        counted_as=counted_as,
        count_remark=row.get("count_remark"),
        remark=row.get("remark"),
    )


def merge(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """Settings with changes on top; mappings are merged key by key, all else is replaced."""
    merged = dict(settings)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = merge(old or {}, value) if isinstance(value, Mapping) else value
    return merged

"""The paper's parameter counts beside ours, one line for each printed number."""

from dataclasses import dataclass

from onmt_define.paper.model_counts import ModelCount, count_model
from onmt_define.paper.published import PublishedRow, PublishedTable, Settings

# The paper's columns, in its order: key in the table's file, label, attribute of ModelCount.
PARTS = {
    "define": "DeFINE",
    "context": "context",
    "input_output": "input-output",
    "total": "total",
}

ANOTHER_WORK = "Another work's model, which isn't built here."


@dataclass(frozen=True)
class ComparedCount:
    """One printed number of parameters in millions, and our exact count of the same.

    A row whose printed count needs other settings than the text's has two lines for a number, the
    second with these settings, which `variant` names. `count` is None for a model that isn't built
    here.
    """

    row_id: str
    name: str
    variant: str | None
    part: str
    printed: str
    count: int | None

    @property
    def ours(self) -> str | None:
        """Our count in millions, with as many decimals as the paper prints."""
        if self.count is None:
            return None
        decimals = len(self.printed.partition(".")[2])
        return f"{self.count / 1e6:.{decimals}f}"

    @property
    def matches(self) -> bool | None:
        """Whether both are the same to the printed digit."""
        return None if self.count is None else self.ours == self.printed


@dataclass(frozen=True)
class ComparedRow:
    """The lines of one row and what is to be said about them."""

    id: str
    lines: tuple[ComparedCount, ...]
    remark: str | None


def has_counts(table: PublishedTable) -> bool:
    """Whether the table prints parameters at all."""
    return any("parameters" in row.printed for row in table.rows)


def compare(table: PublishedTable, assumed_vocabulary_size: int) -> list[ComparedRow]:
    """Compare all rows of a table that print parameters.

    Args:
        assumed_vocabulary_size: V of models whose V the paper doesn't tell.
    """
    return [
        _compare_row(row, assumed_vocabulary_size)
        for row in table.rows
        if "parameters" in row.printed
    ]


def _compare_row(row: PublishedRow, assumed: int) -> ComparedRow:
    if row.settings is None:
        return ComparedRow(row.id, _lines(row, None, None), ANOTHER_WORK)
    lines = _lines(row, None, _count(row.settings, assumed))
    if row.counted_settings:
        lines += _lines(row, row.counted_as, _count(row.counted_settings, assumed))
    remarks = [row.count_remark] if row.count_remark else []
    if row.settings["vocabulary_size"] is None:
        remarks.insert(0, _formula(row.counted_settings or row.settings, assumed))
    return ComparedRow(row.id, lines, " ".join(remarks) or None)


def _lines(
    row: PublishedRow, variant: str | None, count: ModelCount | None
) -> tuple[ComparedCount, ...]:
    printed = row.printed["parameters"]
    return tuple(
        ComparedCount(
            row.id, row.name, variant, part, printed[part], getattr(count, part) if count else None
        )
        for part in PARTS
        if part in printed
    )


def _count(settings: Settings, assumed: int) -> ModelCount:
    return count_model(settings, settings["vocabulary_size"] or assumed)


def _formula(settings: Settings, assumed: int) -> str:
    """Our total as a sum of what V doesn't touch and a multiple of V."""
    fixed = count_model(settings, 0).total
    per_token = count_model(settings, 1).total - fixed
    return (
        f"Ours is {fixed:,} + {per_token:,} V; the paper doesn't tell the vocabulary size V, "
        f"{assumed:,} here."
    )

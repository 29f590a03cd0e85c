"""The comparison as text for a terminal, as CSV and as Markdown."""

import csv
import io
import textwrap

from onmt_define.paper.comparison import PARTS, ComparedCount, ComparedRow
from onmt_define.paper.published import PublishedTable

WIDTH = 100  # columns of the text format
COLUMNS = ("row", "name", "part", "paper", "ours", "exact count", "match")
NUMBERS = ("paper", "ours", "exact count")

Compared = list[tuple[PublishedTable, list[ComparedRow]]]


def as_text(compared: Compared) -> str:
    """Tables for reading, at most 100 columns wide, and how many numbers are met."""
    blocks = [_text_table(table, rows) for table, rows in compared]
    met, printed = _met(compared)
    summary = (
        f"{met} of {printed} printed numbers are met to the last digit "
        "(a row with two counts by either of them)."
    )
    return "\n\n".join([*blocks, summary]) + "\n"


def _text_table(table: PublishedTable, rows: list[ComparedRow]) -> str:
    cells = [_text_cells(row) for row in rows]
    lines = [line for row in cells for line in row]
    totals_only = all(line["part"] == PARTS["total"] for line in lines)
    columns = [column for column in COLUMNS if not (totals_only and column == "part")]
    widths = {name: max(len(name), *(len(line[name]) for line in lines)) for name in columns}

    def text(line: dict[str, str]) -> str:
        padded = (
            line[column].rjust(width) if column in NUMBERS else line[column].ljust(width)
            for column, width in widths.items()
        )
        return "  ".join(padded).rstrip()

    printed = [_title(table), text({column: column for column in columns})]
    for row, row_lines in zip(rows, cells, strict=True):
        printed += map(text, row_lines)
        if row.remark:
            printed.append(textwrap.indent(textwrap.fill(row.remark, WIDTH - 4), "    "))
    return "\n".join(printed)


def _text_cells(row: ComparedRow) -> list[dict[str, str]]:
    """The cells of a row's lines, its id and name only once, a variant's name below them."""
    lines = [_cells(line) for line in row.lines]
    for line, before, cells in zip(row.lines[1:], row.lines, lines[1:], strict=False):
        is_new = line.variant != before.variant
        cells |= {"row": "", "name": f"  {line.variant}" if is_new else ""}
    return lines


def as_markdown(compared: Compared) -> str:
    """A heading, a table and the remarks for each table."""
    blocks = []
    for table, rows in compared:
        printed = [
            f"### {_title(table)}",
            "",
            f"| {' | '.join(COLUMNS)} |",
            "|" + "|".join(" ---: " if column in NUMBERS else " --- " for column in COLUMNS) + "|",
        ]
        for row in rows:
            for line in row.lines:
                printed.append(f"| {' | '.join(_cells(line).values())} |")
        remarks = [f"- {_key(row.id)}: {row.remark}" for row in rows if row.remark]
        blocks.append("\n".join([*printed, *([""] if remarks else []), *remarks]))
    return "\n\n".join(blocks) + "\n"


def as_csv(compared: Compared) -> str:
    """One line for each printed number, with the row's remark."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["row", "name", "part", "paper_millions", "our_millions", "our_count", "match", "remark"]
    )
    for _, rows in compared:
        for row in rows:
            for line in row.lines:
                match = {True: "yes", False: "no", None: None}[line.matches]
                ours = [line.ours, line.count, match, row.remark]
                writer.writerow([row.id, _name(line), line.part, line.printed, *ours])
    return stream.getvalue()


FORMATS = {"text": as_text, "csv": as_csv, "markdown": as_markdown}


def _title(table: PublishedTable) -> str:
    return f"Table {table.number}: {table.title} (parameters in millions)"


def _key(row_id: str) -> str:
    return row_id.partition("/")[2]


def _name(line: ComparedCount) -> str:
    return f"{line.name}, {line.variant}" if line.variant else line.name


def _cells(line: ComparedCount) -> dict[str, str]:
    return {
        "row": _key(line.row_id),
        "name": _name(line),
        "part": PARTS[line.part],
        "paper": line.printed,
        "ours": line.ours or "-",
        "exact count": "-" if line.count is None else f"{line.count:,}",
        "match": {True: "yes", False: "no", None: "-"}[line.matches],
    }


def _met(compared: Compared) -> tuple[int, int]:
    """How many printed numbers of models that we build are met, by some line, and of how many."""
    met: dict[tuple[str, str], bool] = {}
    for _, rows in compared:
        for line in (line for row in rows for line in row.lines if line.count is not None):
            number = (line.row_id, line.part)
            met[number] = met.get(number, False) or bool(line.matches)
    return sum(met.values()), len(met)

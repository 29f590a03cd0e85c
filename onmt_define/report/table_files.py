"""Writes a table as Markdown and as LaTeX, with the cells as the page shows them.

CSV, in full precision, is written in `tables`.
"""

import re
from collections.abc import Callable
from pathlib import Path

from onmt_define.files import complete_or_absent
from onmt_define.report.tables import Cell, Column, Table

Format = Callable[[Cell, Column], str]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\u00a0": "~",
    "–": "--",
    "−": "$-$",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def write_markdown(table: Table, path: str | Path, cell: Format) -> None:
    """A table of GitHub's Markdown; numbers are aligned to the right."""
    lines = [
        [_in_markdown(_heading(column)) for column in table.columns],
        ["---" if column.kind == "text" else "---:" for column in table.columns],
    ]
    lines += [
        [_in_markdown(cell(row.cells[column.key], column)) for column in table.columns]
        for row in table.rows
    ]
    _write(path, "".join(f"| {' | '.join(line)} |\n" for line in lines))


def write_latex(table: Table, path: str | Path, cell: Format) -> None:
    """A `tabular` for \\input; it needs the package booktabs."""
    alignment = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    heading = " & ".join(in_latex(_heading(column)) for column in table.columns)
    body = "".join(
        " & ".join(in_latex(cell(row.cells[column.key], column)) for column in table.columns)
        + " \\\\\n"
        for row in table.rows
    )
    _write(
        path,
        f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{heading} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n",
    )


def in_latex(text: str) -> str:
    """Text with LaTeX's own characters written so that they are printed."""
    return "".join(_LATEX.get(character, character) for character in text)


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text.replace("\n", " "))


def _heading(column: Column) -> str:
    has_unit = column.unit and column.kind not in ("percent", "duration")
    return f"{column.label} ({column.unit})" if has_unit else column.label


def _write(path: str | Path, text: str) -> None:
    with complete_or_absent(path) as part:
        part.write_text(text, encoding="utf-8")

"""`onmt_define params`: the paper's parameter counts beside ours, on the command line.

What not every installation has is imported where it is used: `onmt_define doctor` runs without.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from onmt_define.errors import UserError

if TYPE_CHECKING:
    from onmt_define.paper.published import PublishedTable

DEFAULT_VOCABULARY_SIZE = 31_000

HELP = """\
Compute the number of parameters of each model in the paper's tables and print it beside the
printed one, split as the table splits it: DeFINE (the unit), context (the LSTM or Transformer),
input-output (token tables and classifier) and total. "match" says whether ours, rounded, is the
paper's to the last printed digit; where it isn't, a sentence says why. Nothing is trained.
"""

EXAMPLES = """\
examples:
  onmt_define params                        every table that prints parameters
  onmt_define params --table 1a             LSTM models, DeFINE at three depths
  onmt_define params --table 6 7a           Tables 6a and 6b, and 7a
  onmt_define params --table 3 --vocabulary-size 37000
                                            translation with your own V on each side
  onmt_define params --format csv > counts.csv

A row's id, such as table1a/R3, names its settings in onmt_define/paper/tables/table1a.yaml.
Tables are numbered as in the ICLR 2020 version.
"""


def add_commands(subparsers: Any) -> None:
    """Register `params` below a command's subparsers."""
    parser = subparsers.add_parser(
        "params",
        help="the paper's parameter counts beside ours",
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--table",
        nargs="+",
        action="extend",
        metavar="NUMBER",
        help="tables to print, such as 1a, or 1 for 1a, 1b and 1c; all by default",
    )
    parser.add_argument(
        "--format",
        default="text",
        metavar="{text,csv,markdown}",
        help="text for reading (default), csv for programs, markdown for pages",
    )
    parser.add_argument(
        "--vocabulary-size",
        default=str(DEFAULT_VOCABULARY_SIZE),
        metavar="V",
        help="token types on each side of the translation models, which the paper doesn't tell"
        f" (default {DEFAULT_VOCABULARY_SIZE:,})",
    )
    parser.set_defaults(function=run_params)


def run_params(arguments: argparse.Namespace) -> None:
    """Carry out `params`."""
    from onmt_define.paper.comparison import compare
    from onmt_define.paper.formats import FORMATS

    if arguments.format not in FORMATS:
        raise UserError(f"--format is {arguments.format!r}, expected one of {', '.join(FORMATS)}")
    vocabulary_size = _vocabulary_size(arguments.vocabulary_size)
    tables = choose_tables(arguments.table)
    compared = [(table, compare(table, vocabulary_size)) for table in tables]
    print(FORMATS[arguments.format](compared), end="")


def _vocabulary_size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UserError(
            f"--vocabulary-size is {text!r}, expected a whole number of at least 1, such as 31000"
        )
    return int(text)


def choose_tables(wanted: list[str] | None) -> list[PublishedTable]:
    """Tables with parameters: all, or those that `wanted` names, in the paper's order.

    Raises:
        UserError: for a number that names no table, or only tables without parameters.
    """
    from onmt_define.paper.comparison import has_counts
    from onmt_define.paper.published import load_tables

    tables = [table for table in load_tables().values() if has_counts(table)]
    if wanted is None:
        return tables
    for number in wanted:
        if not any(_names(number, table) for table in tables):
            known = ", ".join(table.number for table in tables)
            problem = (
                "prints no parameters"
                if any(_names(number, table) for table in load_tables().values())
                else "isn't in the paper"
            )
            raise UserError(f"--table: table {number!r} {problem}, expected one of {known}")
    return [table for table in tables if any(_names(number, table) for number in wanted)]


def _names(number: str, table: PublishedTable) -> bool:
    return number in (table.number, table.number.rstrip("abc"))

"""`onmt_define correlation`: how far the dimensions of a model's input layers do the same."""

import argparse
from pathlib import Path
from typing import Any

HELP = """\
Compute the correlation map M = E^T E of each input layer of a trained model, normalised to 0..1,
for each stage of it: the mapping layer, the maps of a DeFINE unit, Reduce. The number of a map is
the mean absolute correlation between different dimensions; 0 means that they are independent. A
second one, centred, leaves out the mean vector that all tokens have in common. For a map with
groups there is also the mean between dimensions of different groups.

Any checkpoint of onmt_train and any model.pt of `onmt_define lm train` will do. FOLDER gets the
numbers (correlation.csv, correlation.json) and the maps as pictures.
"""


def add_commands(subparsers: Any) -> None:
    """Register `correlation` below a command's subparsers."""
    parser = subparsers.add_parser(
        "correlation",
        help="correlation maps of a trained model's input layers",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="checkpoint of onmt_train, or model.pt of a language model")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="where to write (correlation/ beside the model)"
    )
    parser.set_defaults(function=run_correlation)


def run_correlation(arguments: argparse.Namespace) -> None:
    """Carry out `correlation`."""
    from onmt_define.analysis.record import analyse, as_text

    folder = arguments.output or Path(arguments.model).parent / "correlation"
    print(as_text(analyse(arguments.model, folder)))
    print(f"written to {folder}")

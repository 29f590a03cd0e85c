"""`onmt_define fold` and `onmt_define doctor`: what the plug-in has beside the stock commands."""

import argparse
from typing import Any


def add_commands(subparsers: Any) -> None:
    """Register `fold` and `doctor` below a command's subparsers."""
    fold = subparsers.add_parser(
        "fold",
        help="turn a trained OpenNMT-py model into a plain one that needs no plug-in",
        description="Write a model whose input layer is an ordinary table: the same translations, "
        "with stock OpenNMT-py alone or converted by CTranslate2.",
    )
    fold.add_argument("model", help="checkpoint of onmt_train")
    fold.add_argument("-o", "--output", required=True, metavar="FILE", help="plain model to write")
    fold.set_defaults(function=run_fold)


def run_fold(arguments: argparse.Namespace) -> None:
    """Carry out `fold`."""
    from onmt_define.opennmt.folding import fold_file

    print(fold_file(arguments.model, arguments.output))

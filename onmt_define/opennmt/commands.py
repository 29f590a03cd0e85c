"""`onmt_define fold`, `merge-lora` and `doctor`: what the plug-in has beside the stock commands."""

import argparse
import sys
from typing import Any


def add_commands(subparsers: Any) -> None:
    """Register them below a command's subparsers."""
    fold = subparsers.add_parser(
        "fold",
        help="turn a trained OpenNMT-py model into a plain one that needs no plug-in",
        description="Write a model whose input layer is an ordinary table: the same translations, "
        "with stock OpenNMT-py alone or converted by CTranslate2.",
    )
    fold.add_argument("model", help="checkpoint of onmt_train")
    fold.add_argument("-o", "--output", required=True, metavar="FILE", help="plain model to write")
    fold.set_defaults(function=run_fold)
    merge = subparsers.add_parser(
        "merge-lora",
        help="put LoRA adapters into the OpenNMT-py model that they were trained on",
        description="A checkpoint of onmt_train with lora_layers holds the adapters alone. Write "
        "a whole model with them in it, which translates, trains and folds as any other.",
    )
    merge.add_argument("base", help="the model that the training began from (train_from)")
    merge.add_argument("adapted", help="checkpoint of the training with lora_layers")
    merge.add_argument("-o", "--output", required=True, metavar="FILE", help="model to write")
    merge.set_defaults(function=run_merge_lora)
    doctor = subparsers.add_parser(
        "doctor",
        help="say what is installed, what the stock commands see, and what to mend",
        description="One line for each thing looked at; the exit status is 1 if one is broken.",
    )
    doctor.set_defaults(function=run_doctor)


def run_fold(arguments: argparse.Namespace) -> None:
    """Carry out `fold`."""
    from onmt_define.opennmt.folding import fold_file

    print(fold_file(arguments.model, arguments.output))


def run_merge_lora(arguments: argparse.Namespace) -> None:
    """Carry out `merge-lora`."""
    from onmt_define.opennmt.lora import merge_lora_files

    print(merge_lora_files(arguments.base, arguments.adapted, arguments.output))


def run_doctor(arguments: argparse.Namespace) -> None:
    """Carry out `doctor`."""
    from onmt_define.opennmt.doctor import findings

    broken = 0
    for finding in findings():
        print(f"{finding.state:7} {finding.text}", flush=True)
        broken += finding.state == "broken"
    if broken:
        print(f"{broken} thing{'s' * (broken > 1)} to mend, see above")
        sys.exit(1)

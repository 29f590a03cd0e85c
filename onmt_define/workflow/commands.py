"""`onmt_define gpus`: the machine's GPUs and who holds them."""

import argparse
from typing import Any


def add_commands(subparsers: Any) -> None:
    """Register `gpus` below a command's subparsers."""
    gpus = subparsers.add_parser(
        "gpus",
        help="list the visible GPUs, who holds a lease on them, and who waits",
        description="One line for each GPU that CUDA_VISIBLE_DEVICES names, or for all. Only jobs "
        "of this package take leases: a free GPU may be in use by something else.",
    )
    gpus.set_defaults(function=run_gpus)


def run_gpus(_: argparse.Namespace) -> None:
    """Carry out `gpus`."""
    from onmt_define.workflow.gpus import visible_gpus
    from onmt_define.workflow.leases import holders

    gpus = visible_gpus()
    if not gpus:
        print("no GPU is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES)")
    held_by, waiting = holders(gpus)
    for gpu, holder in zip(gpus, held_by, strict=True):
        name = f", {gpu.name}" if gpu.name else ""
        print(f"GPU {gpu}{name}: {f'held by {holder}' if holder else 'free'}")
    for one in waiting:
        print(f"waiting: {one}")

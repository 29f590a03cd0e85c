"""`onmt_define gpus`, the machine's GPUs and who holds them; `plan`, what a run will cost."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError

# Beside the package in a clone of the repository.
SNAKEFILE = Path(__file__).parents[2] / "Snakefile"


def add_commands(subparsers: Any) -> None:
    """Register `gpus` and `plan` below a command's subparsers."""
    gpus = subparsers.add_parser(
        "gpus",
        help="list the visible GPUs, who holds a lease on them, and who waits",
        description="One line for each GPU that CUDA_VISIBLE_DEVICES names, or for all. Only jobs "
        "of this package take leases: a free GPU may be in use by something else.",
    )
    gpus.set_defaults(function=run_gpus)
    plan = subparsers.add_parser(
        "plan",
        help="say what a configuration would run, download and need, without starting anything",
        description="Jobs, downloads, disk and GPU-hours of what isn't done yet in this folder; "
        "the last two are estimates. Ends with status 2 where the disk is too small.",
    )
    plan.add_argument("config", help="configuration of the workflow, such as config.yaml")
    plan.add_argument("--snakefile", type=Path, default=SNAKEFILE, help="the workflow's Snakefile")
    plan.set_defaults(function=run_plan)


def run_plan(arguments: argparse.Namespace) -> None:
    """Carry out `plan`."""
    from onmt_define.workflow.config import load_config
    from onmt_define.workflow.costs import GIB, check_disk, estimate
    from onmt_define.workflow.plan import check_options

    config = load_config(arguments.config)
    check_options(config, arguments.config, gpus_given=None)
    costs = estimate(config)
    print(_jobs(arguments.config, arguments.snakefile))
    print(f"Text that is there already: {', '.join(costs.texts) or 'none'}")
    print("Downloads:" if costs.downloads else "Downloads: none")
    for download in costs.downloads:
        size = "size unknown" if download.size is None else f"{download.size / 1e6:,.1f} MB"
        unpacked = download.size is not None and download.name.endswith(".gz")
        print(f"  {download.name}: {size}{' unpacked' * unpacked}")
    if costs.downloads:
        known = sum(download.size or 0 for download in costs.downloads)
        print(f"  together, where known: {known / 1e9:.2f} GB")
    print("Trainings, in hours of one H100 or H200, or of the GPU that trained another seed:")
    for training in costs.trainings:
        hours = "no speed known" if training.hours is None else f"{training.hours:.1f}"
        start = f" from step {training.step:,} on" if training.step else ""
        print(f"  {training.name}: {'done' if training.done else hours + start}")
    left = [one.hours for one in costs.trainings if not one.done and one.hours is not None]
    print(f"  together, where known: {sum(left):.1f} GPU-hours")
    print(
        f"Disk: about {costs.disk_at_peak / GIB:.1f} GiB more at the peak, "
        f"{costs.disk_at_end / GIB:.1f} GiB more at the end"
    )
    check_disk(config, arguments.config)


def _jobs(config: str, snakefile: Path) -> str:
    """Snakemake's own table of jobs."""
    if not snakefile.is_file():
        raise UserError(f"there is no file {snakefile}; say --snakefile, in a clone of the project")
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--dry-run"]
    command += ["--cores", "1", "--quiet", "rules", "--configfile", config]
    done = subprocess.run(command, capture_output=True, text=True)
    output = done.stdout + done.stderr
    if done.returncode != 0:
        raise UserError(f"snakemake --dry-run with {config} fails: {output.strip()[-500:]}")
    _, found, table = output.partition("Job stats:\n")
    if not found:
        return "Jobs: none, all is done"
    return "Jobs:\n" + table.split("\n\n", 1)[0].rstrip()


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

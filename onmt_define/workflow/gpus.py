"""GPU leases: which of the machine's GPUs a job may use.

Snakemake counts `gpu` but gives no ids out, so jobs that run at once would all take the first
card. A lease is a locked file for each GPU on node-local disk, held for the life of the process;
the kernel frees it however the process ends. A job gets all the GPUs it asks for together or none.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from onmt_define.errors import UserError


def visible_gpus() -> list[str]:
    """Ids that CUDA_VISIBLE_DEVICES may hold: what it already holds, else every GPU's UUID."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [gpu.strip() for gpu in visible.split(",") if gpu.strip() not in ("", "-1")]
    try:
        listing = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return listing.stdout.split()


def require_gpus(wanted: int, visible: int, allow_cpu: bool, what: str) -> None:
    """Raise `UserError` if `what` asks for GPUs that aren't there and may not use the CPU.

    No GPU at all is fine with `allow_cpu`; fewer than wanted never is.
    """
    if visible >= wanted > 0 or (allow_cpu and 0 in (wanted, visible)):
        return
    if wanted == 0:
        raise UserError(
            f"{what} was given no GPU: start Snakemake with --resources gpu=N, or set "
            "allow_cpu: true in the configuration"
        )
    raise UserError(
        f"{what} asks for {wanted} GPU{'s' if wanted > 1 else ''}, but {visible or 'none'} "
        f"{'are' if visible > 1 else 'is'} visible (see nvidia-smi and CUDA_VISIBLE_DEVICES); "
        "set allow_cpu: true in the configuration to train on the CPU"
    )


def usable_gpus(wanted: int, allow_cpu: bool, what: str) -> int:
    """How many GPUs `what` gets: those it wants, or none where it may use the CPU and must.

    Raises:
        UserError: see `require_gpus`.
    """
    visible = len(visible_gpus())
    require_gpus(wanted, visible, allow_cpu, what)
    return min(wanted, visible)


def lease_folder() -> Path:
    """Node-local folder of the lock files, shared by all users of the machine."""
    return Path(tempfile.gettempdir()) / "onmt_define-gpus"


@contextmanager
def lease(wanted: int, job: str) -> Iterator[list[str]]:
    """Hold `wanted` GPUs, which may be none; yields their ids for CUDA_VISIBLE_DEVICES.

    Under SLURM the scheduler has already given the job its own GPUs, which are used as they are.

    Raises:
        UserError: if fewer GPUs than wanted are visible at all.
    """
    if wanted == 0:
        yield []
        return
    gpus = visible_gpus()
    require_gpus(wanted, len(gpus), allow_cpu=False, what=job)
    if "SLURM_JOB_ID" in os.environ:
        yield gpus[:wanted]
        return
    with ExitStack() as held:
        leased = _wait_for(gpus, wanted, job, held)
        print(f"[{job}] holds GPU {', '.join(leased)}", file=sys.stderr, flush=True)
        yield leased


def _wait_for(gpus: list[str], wanted: int, job: str, held: ExitStack) -> list[str]:
    told = False
    while True:
        with ExitStack() as attempt:
            taken: list[str] = []
            for gpu in gpus:
                if len(taken) < wanted and _take(gpu, attempt):
                    taken.append(gpu)
            if len(taken) == wanted:
                held.enter_context(attempt.pop_all())
                return taken
        if not told:
            print(f"[{job}] waits for {wanted} of {len(gpus)} GPUs", file=sys.stderr, flush=True)
            told = True
        # Jobs that found too few at the same moment must not meet again.
        time.sleep(random.uniform(0.5, 2.0))


def _take(gpu: str, attempt: ExitStack) -> bool:
    folder = lease_folder()
    folder.mkdir(mode=0o777, exist_ok=True)
    try:
        attempt.enter_context(FileLock(folder / f"{gpu}.lock", timeout=0, mode=0o666))
    except Timeout:
        return False
    return True

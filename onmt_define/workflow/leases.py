"""GPU leases: which of the machine's GPUs a job may use.

Snakemake counts `gpu` but gives no ids out, so jobs that run at once would all take the first
card. A lease is a locked file for each GPU on node-local disk, held for the life of the process;
the kernel frees it however the process ends. A job gets all the GPUs it asks for together or none.

Who has to wait draws a ticket, a locked file as well. As long as there is an older ticket that
some of the same GPUs would serve, nobody takes any: so a job that wants many gets them, however
many come after it that want few. Tickets and GPUs are only looked at by the holder of one more
lock, for milliseconds.
"""

import os
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from filelock import FileLock, Timeout

from onmt_define import owner
from onmt_define.workflow.gpus import Gpu, require_gpus, visible_gpus

FOLDER_VARIABLE = "ONMT_DEFINE_GPU_LEASES"
LOG_COLUMNS = ("time", "event", "job", "indices", "gpus", "host", "process")
SECONDS_BETWEEN_WAITING_LINES = 60.0


def lease_folder() -> Path:
    """Folder of the lock files: node-local, and the same for all users of the machine.

    ONMT_DEFINE_GPU_LEASES names another; inside a lease it is the lease's own. GPUs that SLURM has
    given to a job are shared out inside that job alone: no other job has them.
    """
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    job = os.environ.get("SLURM_JOB_ID") if "CUDA_VISIBLE_DEVICES" in os.environ else None
    return Path("/tmp") / ("onmt_define-gpus" + (f"-slurm-{job}" if job else ""))


@contextmanager
def lease(wanted: int, job: str, log: Path | None = None) -> Iterator[list[Gpu]]:
    """Hold `wanted` GPUs, which may be none, for the length of a block.

    Meanwhile CUDA_VISIBLE_DEVICES names them, and a lease taken in the block or by a process
    started in it gets some of these. `log` is a table to append to: when they were taken and
    released.

    Raises:
        UserError: if fewer GPUs than wanted are visible at all.
    """
    if wanted == 0:
        yield []
        return
    gpus = visible_gpus()
    require_gpus(wanted, len(gpus), allow_cpu=False, what=job)
    folder = lease_folder()
    _make_for_everybody(folder)
    with ExitStack() as held:
        leased = _wait_for(gpus, wanted, job, folder, held)
        print(f"[{job}] holds GPU {', '.join(map(str, leased))}", file=sys.stderr, flush=True)
        held.enter_context(_logged(leased, job, log))
        held.enter_context(_as_all_that_is_visible(leased, folder))
        yield leased


def holders(gpus: Sequence[Gpu]) -> tuple[list[str | None], list[str]]:
    """In words, who holds each of these GPUs (None: it is free), and who waits, oldest first."""
    folder = lease_folder()
    if not folder.is_dir():
        return [None] * len(gpus), []
    with _looking(folder):
        return (
            [_holder(_lock_of(gpu, folder)) for gpu in gpus],
            [_holder(ticket) or "" for ticket in _living_tickets(folder)],
        )


def _wait_for(gpus: list[Gpu], wanted: int, job: str, folder: Path, held: ExitStack) -> list[Gpu]:
    teller = _Teller()
    with ExitStack() as waiting:
        ticket: Path | None = None
        while True:
            with _looking(folder):
                if ticket is None:
                    ticket = _draw_ticket(gpus, wanted, job, folder, waiting)
                before = [
                    older
                    for older in _living_tickets(folder)
                    if older < ticket and _serves(gpus, older)
                ]
                if not before and (leased := _take(gpus, wanted, job, folder, held)):
                    return leased
                situation = _situation(gpus, folder, before)
            teller.tell(f"[{job}] waits for {wanted} of {len(gpus)} GPUs: {situation}")
            time.sleep(random.uniform(0.1, 0.3))


def _take(gpus: list[Gpu], wanted: int, job: str, folder: Path, held: ExitStack) -> list[Gpu]:
    """All the GPUs that are wanted, locked, or none."""
    with ExitStack() as attempt:
        free = (gpu for gpu in gpus if _lock(_lock_of(gpu, folder), attempt))
        leased = list(islice(free, wanted))
        if len(leased) < wanted:
            return []
        for gpu in leased:
            owner.write(owner.this_process(job=job), _facts_of(_lock_of(gpu, folder)))
        held.enter_context(attempt.pop_all())
    return leased


def _draw_ticket(gpus: list[Gpu], wanted: int, job: str, folder: Path, waiting: ExitStack) -> Path:
    last = max(folder.glob("ticket-*.lock"), default=None)
    number = int(last.stem.removeprefix("ticket-")) + 1 if last else 1
    ticket = folder / f"ticket-{number:09}.lock"
    waiting.callback(_remove, ticket)
    _lock(ticket, waiting)
    request = {"wanted": wanted, "gpus": [gpu.id for gpu in gpus]}
    owner.write(owner.this_process(job=f"{job}, for {wanted},", **request), _facts_of(ticket))
    return ticket


def _living_tickets(folder: Path) -> list[Path]:
    """The tickets whose holders are still there, oldest first; the others are deleted."""
    living = []
    for ticket in sorted(folder.glob("ticket-*.lock")):
        if _is_free(ticket):
            _remove(ticket)
        else:
            living.append(ticket)
    return living


def _serves(gpus: Sequence[Gpu], ticket: Path) -> bool:
    """Whether some of these GPUs are among those that a ticket is for."""
    request = owner.read(_facts_of(ticket)) or {"gpus": []}
    return any(gpu.id in request["gpus"] for gpu in gpus)


def _situation(gpus: Sequence[Gpu], folder: Path, before: Sequence[Path]) -> str:
    held = [(gpu, _holder(_lock_of(gpu, folder))) for gpu in gpus]
    parts = [f"GPU {gpu} is held by {holder}" for gpu, holder in held if holder]
    return "; ".join(parts + [f"{_holder(ticket)} came before" for ticket in before])


def _holder(lock: Path) -> str | None:
    if _is_free(lock):
        return None
    facts = owner.read(_facts_of(lock))
    return f"{facts['job']} ({owner.describe(facts)})" if facts else "an unknown process"


class _Teller:
    """Prints a line that is new, but not too often."""

    def __init__(self) -> None:
        self._told = ""
        self._next = 0.0

    def tell(self, line: str) -> None:
        if line != self._told and time.monotonic() >= self._next:
            print(line, file=sys.stderr, flush=True)
            self._told, self._next = line, time.monotonic() + SECONDS_BETWEEN_WAITING_LINES


def _looking(folder: Path) -> FileLock:
    """What whoever looks at tickets and GPUs holds meanwhile."""
    return FileLock(folder / "looking.lock", mode=0o666)


def _lock_of(gpu: Gpu, folder: Path) -> Path:
    return folder / f"gpu-{gpu.id.replace('/', '_')}.lock"


def _facts_of(lock: Path) -> Path:
    return lock.with_suffix(".json")


def _lock(path: Path, held: ExitStack) -> bool:
    try:
        held.enter_context(FileLock(path, timeout=0, mode=0o666))
    except Timeout:
        return False
    return True


def _is_free(path: Path) -> bool:
    with ExitStack() as released:
        return _lock(path, released)


def _remove(ticket: Path) -> None:
    ticket.unlink(missing_ok=True)
    _facts_of(ticket).unlink(missing_ok=True)


def _make_for_everybody(folder: Path) -> None:
    """Every user needs to lock there; no sticky bit, under which the kernel may refuse that."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)


@contextmanager
def _as_all_that_is_visible(leased: Sequence[Gpu], folder: Path) -> Iterator[None]:
    """Let this process and those that it starts see these GPUs, and lease among them alone."""
    nested = folder / f"within-{_lock_of(leased[0], folder).stem}"
    shutil.rmtree(nested, ignore_errors=True)  # of a holder that was killed
    inside = {
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.id for gpu in leased),
        FOLDER_VARIABLE: str(nested),
    }
    before = {name: os.environ.get(name) for name in inside}
    os.environ.update(inside)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        shutil.rmtree(nested, ignore_errors=True)


@contextmanager
def _logged(leased: Sequence[Gpu], job: str, log: Path | None) -> Iterator[None]:
    """Append to the table when GPUs were taken and released; a killed job leaves no release."""
    if log is None:
        yield
        return
    indices = ",".join(gpu.index for gpu in leased)
    ids = ",".join(gpu.id for gpu in leased)
    me = owner.this_process()
    log.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), log.open("x", encoding="utf-8") as file:
        file.write("\t".join(LOG_COLUMNS) + "\n")

    def write(event: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = "\t".join((now, event, job, indices, ids, me["host"], str(me["process"])))
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    write("taken")
    try:
        yield
    finally:
        write("released")

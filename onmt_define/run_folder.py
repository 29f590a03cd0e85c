"""One training at a time in a run's folder, whichever machine it runs on.

A lock of the file system keeps out processes of this machine and is gone with its holder. Between
machines such locks don't always work, and a killed driver leaves its job running elsewhere. So a
holder also says who it is in a file, and touches that file again and again.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from onmt_define import owner
from onmt_define.errors import UserError

SECONDS_BETWEEN_BEATS = 10.0
SECONDS_WITHOUT_A_BEAT = 35.0
"""After so long a holder on another machine is taken for dead."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold an existing folder; two trainings in it would overwrite each other's checkpoints.

    Waits up to `SECONDS_WITHOUT_A_BEAT` where a holder on another machine may be dead.

    Raises:
        UserError: if another process is training in it, saying which.
    """
    owner_file = folder / ".training.owner"
    try:
        held = FileLock(folder / ".training.lock", timeout=0).acquire()
    except Timeout as error:
        raise _in_use(folder, owner.read(owner_file)) from error
    with held:
        _wait_for_another_machine(folder, owner_file)
        me = owner.this_process()
        owner.write(me, owner_file)
        ended = threading.Event()
        threading.Thread(target=_beat, args=(owner_file, me, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
            owner_file.unlink(missing_ok=True)


def _wait_for_another_machine(folder: Path, owner_file: Path) -> None:
    """Return when the holder named in the file is dead; on this machine the lock has shown it."""
    holder = owner.read(owner_file)
    if not holder or holder["host"] == socket.gethostname():
        return
    last_beat, end = _beat_time(owner_file), time.monotonic() + SECONDS_WITHOUT_A_BEAT
    print(
        f"waiting {SECONDS_WITHOUT_A_BEAT:.0f} s to see whether process {holder['process']} on "
        f"{holder['host']} still trains in {folder}",
        file=sys.stderr,
        flush=True,
    )
    while time.monotonic() < end:
        time.sleep(min(1.0, SECONDS_BETWEEN_BEATS))
        if not owner_file.exists():
            return
        # Times of one file compared with each other: the machines' clocks may differ.
        if _beat_time(owner_file) != last_beat:
            raise _in_use(folder, owner.read(owner_file) or holder)


def _beat(owner_file: Path, me: dict[str, Any], ended: threading.Event) -> None:
    while not ended.wait(SECONDS_BETWEEN_BEATS):
        holder = owner.read(owner_file)
        if holder is not None and holder != me:
            # This process was stopped for so long that another one took over: it must not write.
            print(
                f"error: {owner_file.parent} was taken over by {owner.describe(holder)}",
                file=sys.stderr,
            )
            os._exit(1)
        with suppress(OSError):
            os.utime(owner_file)


def _beat_time(owner_file: Path) -> int | None:
    try:
        with owner_file.open("rb") as file:  # opened, so that NFS looks at the server's copy
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None


def _in_use(folder: Path, holder: dict[str, Any] | None) -> UserError:
    who = f" ({owner.describe(holder)})" if holder else ""
    return UserError(f"another process is training in {folder}{who}; wait for it to end or stop it")

"""SIGTERM and SIGUSR1 ask a training to save and to stop, with status 128 + the signal's number.

A cluster sends one of them when a job's time is up. They are noted and looked at between two steps,
so that a checkpoint is that of a whole step.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Which signal has come, if any; the first one counts."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def listen(self, also: Callable[[int], None] | None = None) -> None:
        """Note the signals from now on, and call `also` with each; needs the main thread."""

        def note(number: int, _: FrameType | None) -> None:
            self.signal = self.signal or number
            if also:
                also(number)

        for number in STOP_SIGNALS:
            signal.signal(number, note)

    @contextmanager
    def listening(self, also: Callable[[int], None] | None = None) -> Iterator[None]:
        """Listen during the block alone."""
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        self.listen(also)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def end_at_stop_signals() -> None:
    """Let them end this process and what it starts, as long as there is nothing to save.

    Snakemake ignores one of them, and so would its jobs until they train.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def stop_signal(status: int) -> int | None:
    """The signal that a process was stopped by, from its status as `subprocess` gives it."""
    number = -status if status < 0 else status - 128
    return number if number in STOP_SIGNALS else None


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, however it ends (Linux only).

    What trains must not go on writing after whoever watches over it was killed. `parent` is the
    parent's process id, since it may have ended already.
    """
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

"""One kind of error for what a user can mend, and the one place that prints it."""

import errno
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO


class UserError(Exception):
    """A mistake in the user's input; the message is one sentence: what, where, what is expected."""


@contextmanager
def exit_on_user_error() -> Iterator[None]:
    """Turn a `UserError` into its sentence on stderr and exit status 2, without a traceback.

    A file that can't be opened is the user's to mend as well, wherever that comes out. Ctrl-C, and
    output that nobody reads any more (`| head -1`), end with the shell's own status for it, 130 or
    141, and no traceback either.
    """
    try:
        try:
            yield
        finally:
            _flush()  # at Python's own end it would be too late to keep quiet
    except UserError as error:
        _exit_with(str(error))
    except FileNotFoundError as error:
        if error.filename is None:
            raise
        _exit_with(f"there is no file {error.filename}")
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads(sys.stdout):
            _leave_quietly()
        if error.filename is not None:
            _exit_with(f"{error.filename}: {error.strerror}")
        if error.errno == errno.ENOSPC:
            _exit_with(error.strerror)
        raise
    except KeyboardInterrupt:
        sys.exit(130)


def _flush() -> None:
    if sys.stdout is not None:  # as where it was closed (>&-)
        sys.stdout.flush()


def _exit_with(sentence: str) -> None:
    _flush()
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(2)


def _nobody_reads(stream: TextIO) -> bool:
    """Whether a stream leads into a pipe whose reader is gone; others may break too, as sockets."""
    poll = select.poll()
    poll.register(stream, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _leave_quietly() -> NoReturn:
    # What waits in the buffers is written at Python's end, and must go somewhere.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if _nobody_reads(stream):
            os.dup2(nowhere, stream.fileno())
    sys.exit(128 + signal.SIGPIPE)

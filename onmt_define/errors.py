"""One kind of error for what a user can mend, and the one place that prints it."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """A mistake in the user's input; the message is one sentence: what, where, what is expected."""


@contextmanager
def exit_on_user_error() -> Iterator[None]:
    """Turn a `UserError` into its sentence on stderr and exit status 2, without a traceback.

    A file that can't be opened is the user's to mend as well, wherever that comes out. Ctrl-C ends
    with the shell's own status for it, 130, and no traceback either.
    """
    try:
        yield
    except UserError as error:
        _exit_with(str(error))
    except FileNotFoundError as error:
        if error.filename is None:
            raise
        _exit_with(f"there is no file {error.filename}")
    except OSError as error:
        if error.filename is not None:
            _exit_with(f"{error.filename}: {error.strerror}")
        if error.errno == errno.ENOSPC:
            _exit_with(error.strerror)
        raise
    except KeyboardInterrupt:
        sys.exit(130)


def _exit_with(sentence: str) -> None:
    sys.stdout.flush()
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(2)

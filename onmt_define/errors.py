"""One kind of error for what a user can mend, and the one place that prints it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """A mistake in the user's input; the message is one sentence: what, where, what is expected."""


@contextmanager
def exit_on_user_error() -> Iterator[None]:
    """Turn a `UserError` into its sentence on stderr and exit status 2, without a traceback.

    Ctrl-C ends with the shell's own status for it, 130, and no traceback either.
    """
    try:
        yield
    except UserError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

"""One training at a time in a run's folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from onmt_define.errors import UserError


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock an existing folder; two trainings in it would overwrite each other's checkpoints.

    Raises:
        UserError: if another process is training in it.
    """
    try:
        held = FileLock(folder / ".training.lock", timeout=0).acquire()
    except Timeout as error:
        raise UserError(
            f"another process is training in {folder}; wait for it to end or stop it"
        ) from error
    with held:
        yield

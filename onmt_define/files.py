"""Files that are either complete under their final name or not there at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a write for which there is no room: disk, quota, or a limit on a file's size."""


@contextmanager
def complete_or_absent(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the final name only if the block succeeds.

    The temporary name carries the process id, so two writers never share one. What a killed writer
    left of the same file is deleted then.

    Raises:
        UserError: if there is no room for it, where what `path` held before is still there, or if
            `path` is a device or something else that isn't a file.
    """
    final = Path(path)
    if final.exists() and not final.is_file() and not final.is_dir():
        raise UserError(f"{final} is no regular file, which could be replaced")
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, final)
        _remove_what_killed_writers_left(final)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise UserError(
            f"{final} can't be written ({os.strerror(error.errno)}); what was saved before is whole"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def save_by_torch(content: Any, path: str | Path) -> None:
    """Write what `torch.save` can, with an error that says why where it can't be written."""
    import torch

    with complete_or_absent(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:
            # torch hides why a write failed behind an error of its own.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def require_other_file(output: Path, *inputs: str | Path, kind: str = "model") -> None:
    """Raise `UserError` for an output that is a folder or one of the files it is made of."""
    if output.is_dir():
        raise UserError(f"--output is the folder {output}, expected a file in it")
    for path in inputs:
        if output.exists() and Path(path).exists() and output.samefile(path):
            raise UserError(f"--output is the {kind} {path} itself, expected another file")


def _remove_what_killed_writers_left(final: Path) -> None:
    for path in final.parent.iterdir():
        writer = path.name.removeprefix(f".{final.name}.").removesuffix(".part")
        if path.name == f".{final.name}.{writer}.part" and writer.isdecimal():
            try:
                os.kill(int(writer), 0)
            except ProcessLookupError:
                path.unlink(missing_ok=True)
            except PermissionError:
                pass  # somebody else's, who is at it


def remove_unfinished(folder: str | Path) -> None:
    """Delete what writers that were killed left in a folder, in which nobody may be writing."""
    for temporary in Path(folder).glob(".*.part"):
        temporary.unlink()

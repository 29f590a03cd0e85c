"""The checkpoints of a training: which are whole, which is newest, which can go."""

import errno
import re
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.files import remove_unfinished


class CheckpointFolder:
    """The checkpoints that one kind of training leaves in a folder.

    Args:
        folder: where they lie; it may not be there yet.
        name: pattern of their names, with the step as its only group.
        read: returns the content of one; raises `UserError` where it isn't a checkpoint.
    """

    def __init__(self, folder: Path, name: str, read: Callable[[Path], dict[str, Any]]) -> None:
        self._folder = folder
        self._name = name
        self._read = read

    def by_step(self) -> list[tuple[int, Path]]:
        """All of them as (step, path), newest first."""
        found = []
        for path in self._folder.glob("*"):
            if match := re.fullmatch(self._name, path.name):
                found.append((int(match[1]), path))
        return sorted(found, reverse=True)

    def newest_valid(self) -> tuple[int, Path, dict[str, Any]] | None:
        """Step, path and content of the newest that can be read to its end.

        One that this process may not or can't read now (no permission, a failing disk, too little
        memory) isn't damaged for all that: the `OSError` comes out and nothing is deleted.

        Damaged ones are deleted, so that nothing else takes them for whole, and so is what a
        training that was killed while it saved left behind. Only its writer may call this.
        """
        remove_unfinished(self._folder)
        for step, path in self.by_step():
            content = self.read_or_delete(path)
            if content is not None:
                return step, path, content
        return None

    def read_or_delete(self, path: Path) -> dict[str, Any] | None:
        """The content of one; a damaged one is deleted. `OSError` as for `newest_valid`."""
        content = self._read_whole(path)
        if content is None:
            path.unlink()
            print(f"{path} is damaged, going back to another checkpoint", file=sys.stderr)
        return content

    def newest_readable(self) -> tuple[int, Path, dict[str, Any]] | None:
        """The same at a glance, for those who don't write here: nothing is deleted.

        Not all of a file is read, so one damaged within may pass for whole.
        """
        for step, path in self.by_step():
            with suppress(UserError):
                return step, path, self._read(path)
        return None

    def _read_whole(self, path: Path) -> dict[str, Any] | None:
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is not None:
                    return None
            return self._read(path)
        except (zipfile.BadZipFile, UserError):
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:  # a damaged index, which points before the beginning
                return None
            raise OSError(error.errno, error.strerror, str(path)) from error

    def prune(self, keep: int, every: int = 1) -> None:
        """Delete all but the newest `keep`; none if that is -1, as OpenNMT-py has it.

        Of the older ones only those saved after a multiple of `every` steps count, and the others
        go: one that was saved because the training was stopped may not push out a regular one.
        """
        if keep < 0:
            return
        found = self.by_step()
        regular = [path for step, path in found[1:] if step % every == 0]
        for _, path in found[1:]:
            if path not in regular[: keep - 1]:
                path.unlink()

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
            content = self.read_whole(path)
            if content is not None:
                return step, path, content
            path.unlink()
            print(f"{path} is damaged, going back to the checkpoint before it", file=sys.stderr)
        return None

    def newest_readable(self) -> tuple[int, Path, dict[str, Any]] | None:
        """The same at a glance, for those who don't write here: nothing is deleted.

        Not all of a file is read, so one damaged within may pass for whole.
        """
        for step, path in self.by_step():
            with suppress(UserError):
                return step, path, self._read(path)
        return None

    def read_whole(self, path: Path) -> dict[str, Any] | None:
        """The content of one, None if it is damaged; `OSError` as for `newest_valid`."""
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

    def prune(self, keep: int) -> None:
        """Delete all but the newest `keep`; none if that is -1, as OpenNMT-py has it."""
        if keep < 0:
            return
        for _, path in self.by_step()[keep:]:
            path.unlink()

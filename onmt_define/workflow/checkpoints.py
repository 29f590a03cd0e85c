"""The checkpoints of a training: which are whole, which is newest, which can go."""

import re
import zipfile
from pathlib import Path

from onmt_define.errors import UserError
from onmt_define.opennmt.checkpoint_files import load


def by_step(folder: Path) -> list[tuple[int, Path]]:
    """All checkpoints of a folder as (step, path), newest first."""
    found = []
    for path in folder.glob("checkpoint_step_*.pt"):
        if match := re.fullmatch(r"checkpoint_step_(\d+)\.pt", path.name):
            found.append((int(match[1]), path))
    return sorted(found, reverse=True)


def newest_valid(folder: Path) -> tuple[int, Path] | None:
    """The newest checkpoint that can be read to its end.

    A training that was killed while it saved leaves a truncated file that looks newest; such files
    are deleted, so that nothing else takes them for whole.
    """
    for step, path in by_step(folder):
        if _is_valid(path):
            return step, path
        path.unlink()
    return None


def _is_valid(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                return False
        return {"model", "opt", "optim", "vocab"} <= load(path).keys()
    except (OSError, zipfile.BadZipFile, UserError):
        return False


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep`; OpenNMT-py forgets older ones when it resumes."""
    for _, path in by_step(folder)[keep:]:
        path.unlink()

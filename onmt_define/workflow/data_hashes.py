"""Hashes of the texts that trainings read, by which another person sees that theirs are equal."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onmt_define.files import complete_or_absent


def write_hashes(paths: Iterable[str | Path], output: str | Path) -> None:
    """Write the sha256 and size in bytes of each file as JSON, by its path."""
    with complete_or_absent(output) as temporary:
        temporary.write_text(json.dumps(hashes(paths), indent=1) + "\n", encoding="utf-8")


def hashes(paths: Iterable[str | Path]) -> dict[str, dict[str, Any]]:
    """The sha256 and size in bytes of each file, by its path."""
    found = {}
    for path in dict.fromkeys(map(str, paths)):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found[path] = {"bytes": Path(path).stat().st_size, "sha256": digest}
    return found

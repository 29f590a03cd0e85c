"""Files that are either complete under their final name or not there at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def complete_or_absent(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the final name only if the block succeeds.

    The temporary name carries the process id, so two writers never share one.
    """
    final = Path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)

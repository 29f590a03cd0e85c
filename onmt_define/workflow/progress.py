"""Progress on stderr: a live bar for a person at a terminal, a line now and then for a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onmt_define.progress_line import SECONDS_BETWEEN_LINES


@contextmanager
def progress(
    description: str, unit: str, total: int | None = None, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds to the amount done (of `total`, where that is known)."""
    if sys.stderr.isatty():
        with _bar(description, unit, total, done) as advance:
            yield advance
    else:
        yield _lines(description, unit, total, done)


@contextmanager
def _bar(
    description: str, unit: str, total: int | None, done: int
) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    amount = DownloadColumn() if unit == "MB" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total, completed=done)
        yield lambda amount: bar.advance(task, amount)


def _lines(description: str, unit: str, total: int | None, done: int) -> Callable[[int], None]:
    """A counter that prints nothing for the first seconds, so that short work stays silent."""
    scale = 1e6 if unit == "MB" else 1
    last_line = time.monotonic()
    so_far = done

    def advance(amount: int) -> None:
        nonlocal last_line, so_far
        so_far += amount
        if time.monotonic() - last_line < SECONDS_BETWEEN_LINES:
            return
        last_line = time.monotonic()
        share = f" of {total / scale:,.0f}" if total else ""
        print(f"{description}: {so_far / scale:,.0f}{share} {unit}", file=sys.stderr, flush=True)

    return advance

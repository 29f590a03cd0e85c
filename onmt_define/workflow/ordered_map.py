"""A map over processes that keeps the order and reads only a little ahead of its results."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import nullcontext
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ITEMS_AHEAD = 3  # per process: enough to keep it busy, few enough to bound the memory


def process_pool(processes: int) -> ProcessPoolExecutor | nullcontext[None]:
    """Spawned, not forked: the same on every system, and safe beside libraries with threads."""
    if processes == 1:
        return nullcontext()
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"))


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], pool: Executor | None, ahead: int
) -> Iterator[Result]:
    """Like `pool.map`, but it reads only `ahead` items before their results are taken."""
    if pool is None:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def chunks(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items, the last one maybe shorter."""
    while chunk := list(islice(items, size)):
        yield chunk

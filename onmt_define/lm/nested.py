"""Tensors in nested lists and tuples, as models keep their state."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, cat


def map_tensors(function: Callable[[Tensor], Tensor], nested: Any) -> Any:
    """Apply a function to all tensors."""
    if isinstance(nested, Tensor):
        return function(nested)
    if isinstance(nested, list | tuple):
        return type(nested)(map_tensors(function, part) for part in nested)
    return nested


def join_streams(states: list[Any]) -> Any:
    """The states of several processes as one of all their streams, which are dimension 1."""
    first = states[0]
    if isinstance(first, Tensor):
        return cat(states, dim=1)
    return type(first)(join_streams(list(parts)) for parts in zip(*states, strict=True))

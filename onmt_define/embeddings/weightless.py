"""Modules that have sizes but no memory for weights: to check or count them, or to fill later."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


@contextmanager
def weightless() -> Iterator[None]:
    """What is built in this block gets no memory for its weights."""
    with torch.device("meta"), _NoNormalNumbers():
        yield


class _NoNormalNumbers(TorchFunctionMode):
    """Leaves them out: without memory, torch would import its compiler for them, for a second."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        return settings["tensor"] if function is nn.init.normal_ else function(*args, **settings)

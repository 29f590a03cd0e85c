"""The running average of weights that NT-ASGD keeps (Merity et al., 2018b, section 3)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class RunningAverage:
    """Mean of a model's weights over all steps since it was started.

    Args:
        parameters: the weights, each once.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.averages: list[torch.Tensor] | None = None
        self.steps = 0

    @property
    def is_running(self) -> bool:
        return self.averages is not None

    def start(self) -> None:
        """Average from the next step on; forgets what was averaged before."""
        self.averages = [parameter.detach().clone() for parameter in self.parameters]
        self.steps = 0

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after a step."""
        self.steps += 1
        torch._foreach_lerp_(self.averages, self._weights(), 1 / self.steps)

    @torch.no_grad()
    def take_over(self) -> None:
        """Set the weights to their averages, wherever both are."""
        for weight, average in zip(self._weights(), self.averages, strict=True):
            weight.copy_(average)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the averages, if there are any, stand in for the weights meanwhile."""
        if not self.is_running:
            yield
            return
        own = [weight.clone() for weight in self._weights()]
        self.take_over()
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self._weights(), own)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"averages": self.averages, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.steps, self.averages = state["steps"], state["averages"]

    def follow_weights(self) -> None:
        """Move the averages to where the weights are."""
        if self.is_running:
            pairs = zip(self.averages, self.parameters, strict=True)
            self.averages = [average.to(parameter.device) for average, parameter in pairs]

    def _weights(self) -> list[torch.Tensor]:
        return [parameter.detach() for parameter in self.parameters]


def has_stopped_improving(perplexities: Sequence[float], patience: int) -> bool:
    """The non-monotone trigger: the last is above the best of all but the last `patience`.

    With the perplexities v_1 ... v_t it is v_t > min(v_1 ... v_{t - patience}), looked at once t is
    larger than `patience`, as in the original's program.
    """
    earlier = perplexities[:-patience]
    return bool(earlier) and perplexities[-1] > min(earlier)

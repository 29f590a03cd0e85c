"""The continuous cache (Grave et al., 2017b): words that followed similar states are likelier."""

import math
from typing import Any

import torch
from torch import Tensor

from onmt_define.errors import UserError


class NeuralCache:
    """Mixes a model's probabilities with those of a cache of its latest hidden states.

    The cache gives word w the probability proportional to the sum of exp(sharpness * h_t . h_i)
    over the remembered states h_i that w followed; the result is (1 - weight) of the model's and
    weight of the cache's probability (equations 2 and 3 there).

    Args:
        size: how many states are remembered.
        weight: the cache's share (lambda).
        sharpness: theta; 0 counts words alone.

    Raises:
        UserError: a weight outside 0 to 1, no size, or a sharpness that is no number.
    """

    def __init__(self, size: int, weight: float = 0.1, sharpness: float = 0.3) -> None:
        if size < 1:
            raise UserError(f"the neural cache's size is {size}, expected at least 1")
        if not 0 <= weight < 1:
            raise UserError(
                f"the neural cache's weight is {weight}, expected from 0 up to, not including, 1"
            )
        if not math.isfinite(sharpness):
            raise UserError(
                f"the neural cache's sharpness is {sharpness}, expected a finite number"
            )
        self.size, self.weight, self.sharpness = size, weight, sharpness
        self.states: Tensor | None = None
        self.words: Tensor | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """For a record."""
        return {"size": self.size, "weight": self.weight, "sharpness": self.sharpness}

    def mix(self, losses: Tensor, hidden: Tensor, targets: Tensor) -> Tensor:
        """Losses in nats with the cache, which then remembers this piece of text.

        Args:
            losses: the model's own, (time, batch).
            hidden: what the classifier saw, (time, batch, width).
            targets: the words that followed, (time, batch).
        """
        if self.states is None:
            self.states, self.words = hidden[:0], targets[:0]
        before, time = len(self.states), len(hidden)
        states = torch.cat([self.states, hidden])
        words = torch.cat([self.words, targets])

        distance = (
            before
            + torch.arange(time, device=hidden.device)[:, None]
            - torch.arange(before + time, device=hidden.device)
        )
        remembered = ((distance >= 1) & (distance <= self.size)).unsqueeze(-1)
        scores = self.sharpness * torch.einsum("tbw,sbw->tsb", hidden, states)
        scores = scores.masked_fill(~remembered, -torch.inf)
        shares = scores.softmax(1).nan_to_num(0.0)  # the first word has nothing to remember
        likelihood = (shares * (words == targets.unsqueeze(1))).sum(1)
        weight = self.weight * remembered.any(1)
        mixed = torch.log((1 - weight) * losses.double().neg().exp() + weight * likelihood)

        self.states, self.words = states[-self.size :], words[-self.size :]
        return -mixed

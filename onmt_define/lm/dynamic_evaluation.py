"""Dynamic evaluation (Krause et al., 2018): a model goes on learning from what it has scored."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from onmt_define.errors import UserError
from onmt_define.lm.nested import map_tensors

LARGEST_RATE = 1_000_000


class DynamicEvaluation:
    """One step of plain SGD after each chunk, and a pull back to the trained weights.

    The chunk's loss counts before the step, so nothing is seen before it is predicted. It is the
    first form of the article (section 3), without its scaling by gradients of the training text.

    Args:
        learning_rate: of the step, on the chunk's mean loss.
        decay: part of the distance to the trained weights that is taken back in each step.
        chunk: tokens scored between two steps.

    Raises:
        UserError: a learning rate outside 0 to LARGEST_RATE, or a decay outside 0 to 1.
    """

    def __init__(self, learning_rate: float, decay: float = 0.0, chunk: int = 5) -> None:
        if not 0 < learning_rate <= LARGEST_RATE:
            raise UserError(
                f"the learning rate of dynamic evaluation is {learning_rate}, expected more than 0 "
                f"and at most {LARGEST_RATE:,}"
            )
        if not 0 <= decay <= 1:
            raise UserError(f"the decay of dynamic evaluation is {decay}, expected from 0 to 1")
        self.learning_rate, self.decay, self.chunk = learning_rate, decay, chunk
        self.trained: list[Tensor] = []

    @property
    def settings(self) -> dict[str, Any]:
        """For a record."""
        return {"learning_rate": self.learning_rate, "decay": self.decay, "chunk": self.chunk}

    @contextmanager
    def learning(self, model: nn.Module) -> Iterator[None]:
        """Gradients on; the trained weights are back afterwards."""
        weights = list(model.parameters())
        self.trained = [weight.detach().clone() for weight in weights]
        try:
            # cuDNN has no gradient of a recurrent layer whose dropout is off.
            with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_([weight.detach() for weight in weights], self.trained)

    def learn(self, model: nn.Module, loss: Tensor, state: Any) -> Any:
        """Take a step; returns the model's state without gradient."""
        weights = list(model.parameters())
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        with torch.no_grad():
            for weight, gradient, trained in zip(weights, gradients, self.trained, strict=True):
                if gradient is not None:
                    weight.sub_(gradient, alpha=self.learning_rate)
                weight.lerp_(trained, self.decay)
        return map_tensors(Tensor.detach, state)

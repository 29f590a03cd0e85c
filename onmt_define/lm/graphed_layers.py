"""Forward and backward pass of a Transformer-XL's layers as two CUDA graphs.

A pass is thousands of kernels, which a host launches more slowly than a GPU runs them; a graph
launches them at once. Embedding and classifier stay outside: their bands have other numbers of
tokens in each batch, while the layers' shapes are the same once the memory is full.
"""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from onmt_define.lm.cuda_graphs import give_up_recording
from onmt_define.lm.reporting import report

State = list[Tensor]


class GraphedLayers:
    """Reads a training's batches: by the graphs where the shapes are theirs, or layer by layer.

    What it returns is overwritten by the next call, and so are the gradients: they can't be added
    up over several calls.

    Args:
        context: a TransformerXlContext in training on a GPU.
        time: tokens of a batch of full length.
    """

    def __init__(self, context: nn.Module, time: int) -> None:
        self.context, self.time = context, time
        self.parameters = list(context.parameters())
        self.recorded_for: Any = None
        self.replay: Callable[..., tuple[Tensor, ...]] | None = None

    def __call__(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Outputs and new memories, in the shapes of TransformerXlContext."""
        kind = [inputs.shape, inputs.dtype, *map(Tensor.data_ptr, self.parameters)]
        if self.recorded_for is None and len(inputs) == self.time:
            self.recorded_for = kind
            self._record(inputs)
        has_full_memory = len(state[0]) == self.context.memory
        if self.replay is None or not has_full_memory or kind != self.recorded_for:
            return self.context.read(inputs, state)
        outputs, *state = self.replay(inputs, *state)
        return outputs, state

    def _record(self, inputs: Tensor) -> None:
        """Make the graphs, or say what is in the way."""
        inputs = inputs.detach().clone().requires_grad_()
        memory = inputs.new_zeros(self.context.memory, *inputs.shape[1:], dtype=torch.float32)
        samples = [inputs, *(memory.clone() for _ in self.context.layers)]
        # What is left of an earlier pass, gradients' places for one, would be waited for.
        gc.collect()
        try:
            self.replay = record(_Passes(self.context), samples)
        except RuntimeError as error:
            reason = give_up_recording(error)
            report(f"Transformer-XL's layers are launched one by one: {reason}")


class _Passes(nn.Module):
    """The layers as a function of tensors to tensors."""

    def __init__(self, context: nn.Module) -> None:
        super().__init__()
        self.context = context

    def forward(self, inputs: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        outputs, new_state = self.context.read(inputs, list(state))
        return outputs, *new_state


def record(passes: nn.Module, samples: list[Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """What does the same as `passes` for tensors of the samples' shapes, on a GPU."""
    is_enabled = torch.is_autocast_enabled("cuda")
    # Weights of 16 bits are made anew in each pass, so none may be kept from an earlier one.
    with (
        torch.random.fork_rng([samples[0].device]),
        torch.autocast("cuda", enabled=is_enabled, cache_enabled=False),
    ):
        return torch.cuda.make_graphed_callables(passes, tuple(samples))

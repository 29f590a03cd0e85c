"""Loss and gradients of an LSTM's training step as a CUDA graph for each length of a batch.

A step of a small model is some 300 kernels of a few microseconds each, which a host launches more
slowly than a GPU runs them. A graph launches them all at once. Random lengths of back-propagation
take some 60 values, and each gets a graph of its own; all share their memory.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from onmt_define.lm.batches import Batch
from onmt_define.lm.lstm import LstmContext, State
from onmt_define.lm.model import LanguageModel
from onmt_define.lm.nested import map_tensors

# Runs before a recording: compilation, and choices that libraries make once.
WARM_UP = 2


def can_be_graphed(model: LanguageModel, precision: str, processes: int) -> bool:
    """Whether every step of a batch's length launches the same, on one GPU.

    Bands of an adaptive softmax have other numbers of tokens in each batch, and float16 scales its
    losses by what the last steps' gradients were.
    """
    is_alone = next(model.parameters()).is_cuda and processes == 1
    has_bands = bool(model.output_layer.cutoffs)
    is_lstm = isinstance(model.context, LstmContext)
    return is_alone and is_lstm and not has_bands and precision != "float16"


class GraphedGradients:
    """Sets the parameters' `grad` to the clipped gradients of a batch.

    Args:
        model: in training; recorded anew when its weights have moved.
        gradient_clip: largest norm of all gradients, 0 for any.
    """

    def __init__(self, model: LanguageModel, gradient_clip: float) -> None:
        self.model = model
        self.parameters = list(model.parameters())
        self.gradient_clip = gradient_clip
        self.forget()

    def forget(self) -> None:
        """Record anew from the next batch on."""
        self.steps: dict[int, tuple[Tensor, Tensor, Callable[[], None]]] = {}
        self.recorded_for: Any = None
        self.recorder = Recorder()  # the memory that graphs shared goes with the last of them

    def __call__(self, batch: Batch, state: State | None) -> tuple[Tensor, State]:
        """Mean loss without penalties, and the state to read on from, valid until the next call.

        Args:
            batch: on the device.
            state: what an earlier call returned, or another one; None is that before any token.

        Raises:
            RuntimeError: something in the model can't be recorded; `state` is as it was.
        """
        found = [parameter.data_ptr() for parameter in self.parameters]
        found += [batch.inputs.shape[1], self._autocast_dtype()]
        if found != self.recorded_for:
            state = None if state is None else map_tensors(torch.clone, state)
            self.forget()
            self._make_places(batch)
            self.recorded_for = found
        if len(batch.inputs) not in self.steps:
            self._record(batch, state)
        inputs, targets, replay = self.steps[len(batch.inputs)]
        inputs.copy_(batch.inputs, non_blocking=True)
        targets.copy_(batch.targets, non_blocking=True)
        self._set_state(state)
        self._set_gradients()
        replay()
        return self.loss.clone(), self.state

    def _make_places(self, batch: Batch) -> None:
        """Make what all graphs write to; it must not be in the memory that they share."""
        self.gradients = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.loss = torch.zeros((), device=batch.inputs.device)
        with torch.no_grad(), self._autocast(), torch.random.fork_rng(_devices(batch.inputs)):
            reading = self.model(batch.inputs[:1], batch.targets[:1])
        self.state: State = map_tensors(torch.zeros_like, reading.state)

    def _record(self, batch: Batch, state: State | None) -> None:
        before = None if state is None else map_tensors(torch.clone, state)
        inputs, targets = batch.inputs.clone(), batch.targets.clone()
        self._set_gradients()
        try:
            with torch.random.fork_rng(_devices(inputs)):
                replay = self.recorder.record(lambda: self._run(inputs, targets))
        finally:
            self._set_state(before)
        self.steps[len(inputs)] = inputs, targets, replay

    def _run(self, inputs: Tensor, targets: Tensor) -> None:
        with self._autocast():
            reading = self.model(inputs, targets, self.state)
            loss = reading.losses.mean()
        # As after a forward pass, whatever surrounds the call.
        with torch.autocast(loss.device.type, enabled=False):
            gradients = torch.autograd.grad(
                loss + reading.penalty, self.parameters, materialize_grads=True
            )
        with torch.no_grad():
            torch._foreach_copy_(self.gradients, gradients)
            if self.gradient_clip:
                clip_grad_norm_(self.parameters, self.gradient_clip)
            self.loss.copy_(loss)
            torch._foreach_copy_(_parts(self.state), _parts(reading.state))

    def _set_gradients(self) -> None:
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient

    def _set_state(self, state: State | None) -> None:
        if state is None:
            torch._foreach_zero_(_parts(self.state))
        elif state is not self.state:
            torch._foreach_copy_(_parts(self.state), _parts(state))

    def _autocast(self) -> Any:
        """What is in force, but without keeping weights of 16 bits from one run to the next."""
        kind, dtype = self.parameters[0].device.type, self._autocast_dtype()
        return torch.autocast(kind, dtype, enabled=dtype is not None, cache_enabled=False)

    def _autocast_dtype(self) -> torch.dtype | None:
        kind = self.parameters[0].device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


class Recorder:
    """Makes CUDA graphs of functions that never run at the same time, so that they share memory.

    What a function leaves behind has to be in memory from outside.
    """

    def __init__(self) -> None:
        self.pool: Any = None

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Run a function a few times and return what does the same again."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                function()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            function()
        self.pool = graph.pool()
        return graph.replay


def _parts(state: State) -> list[Tensor]:
    return [part for pair in state for part in pair]


def _devices(tensor: Tensor) -> list[torch.device]:
    """What `fork_rng` keeps the random numbers of, beside the CPU."""
    return [tensor.device] if tensor.is_cuda else []

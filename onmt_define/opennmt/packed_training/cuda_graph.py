"""Forward and backward of a batch as one CUDA graph, so that a slow host can't hold up the card."""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from onmt_define.opennmt.packed_training.batches import PackedBatch, Side

WARM_UP = 3
"""Runs before the recording: compilation, and allocations that don't come again."""


class GraphedGradients:
    """Adds the gradients of batches of always the same shape to the parameters' `grad`.

    Between steps gradients must be zeroed in place: the graph writes to the memory they are in.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._graph: torch.cuda.CUDAGraph | None = None

    def forget(self) -> None:
        """Record anew at the next batch, as after a change of dropout."""
        self._graph = None

    def __call__(self, batch: PackedBatch, scale: float) -> tuple[Tensor, Tensor]:
        """Loss and right predictions, as the model returns them; valid until the next call.

        Args:
            batch: on the device.
            scale: what the loss is multiplied with before its gradient is taken.
        """
        if self._graph is None:
            self._record(batch)
        assert self._graph is not None
        _copy(batch, self._batch)
        self._scale.fill_(scale)
        self._graph.replay()
        return self._outputs

    def _record(self, batch: PackedBatch) -> None:
        self._batch, self._scale = batch, torch.ones((), device=batch.labels.device)
        gradients = {
            parameter: None if parameter.grad is None else parameter.grad.clone()
            for parameter in self._model.parameters()
        }
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._run()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = self._run()
        for parameter, gradient in gradients.items():
            if parameter.grad is not None:
                parameter.grad.zero_() if gradient is None else parameter.grad.copy_(gradient)

    def _run(self) -> tuple[Tensor, Tensor]:
        loss, right = self._model(self._batch)
        (loss * self._scale).backward()
        return loss.detach(), right


def _copy(source: Any, target: Any) -> None:
    """Copy every tensor of a batch into the same one of another."""
    for field in fields(source):
        value, place = getattr(source, field.name), getattr(target, field.name)
        if isinstance(value, Tensor):
            place.copy_(value, non_blocking=True)
        elif isinstance(value, Side):
            _copy(value, place)

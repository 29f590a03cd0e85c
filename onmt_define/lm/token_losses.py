"""Losses of a softmax's targets, with our own kernels on a GPU."""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from onmt_define.lm.aligned import aligned_linear, likes_alignment
from onmt_define.lm.reporting import report

try:
    from onmt_define.lm import loss_kernels
except ImportError:  # torch's CPU builds come without Triton
    loss_kernels = None


def token_losses(hidden: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Cross-entropy of a softmax over hidden @ table^T + bias, in nats.

    Shapes: hidden (rows, n), table (V, n), bias (V), targets int64 (rows) to float32 (rows).
    """
    if not likes_alignment(hidden) or not _kernels_run(hidden.device):
        logits = functional.linear(hidden, table, bias)
        return functional.cross_entropy(logits, targets, reduction="none")
    return KernelLosses.apply(aligned_linear(hidden, table, bias), targets, table.shape[0])


class KernelLosses(torch.autograd.Function):
    """Logits (rows, at least V), of which the first V count, and targets (rows) to losses."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, classes: int) -> Tensor:
        logits, targets = logits.contiguous(), targets.contiguous()
        losses, log_totals = loss_kernels.forward(logits, targets, classes)
        ctx.save_for_backward(logits, targets, log_totals)
        ctx.classes = classes
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_losses: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        gradient = loss_kernels.backward(grad_losses.float().contiguous(), *saved, ctx.classes)
        return gradient, None, None


@functools.cache
def _kernels_run(device: torch.device) -> bool:
    """Try the kernels once: Triton needs a C compiler and a GPU that isn't too old."""
    if loss_kernels is None:
        return False
    logits, targets = torch.zeros(1, 1, device=device), torch.zeros(1, 1, device=device).long()
    try:
        _, log_totals = loss_kernels.forward(logits, targets, 1)
        loss_kernels.backward(log_totals, logits, targets, log_totals, 1)
    except Exception as error:  # Triton has no closed list of what it raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        report(f"losses are computed by torch alone: {reason}")
        return False
    return True

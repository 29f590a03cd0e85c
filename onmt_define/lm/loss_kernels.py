"""Cross-entropy of each row of logits in one pass over memory each way, on a GPU.

torch copies 16-bit logits to 32 bits, writes all logarithms of probabilities, and goes through
both again for the gradient. Here the logits are read once each way, and nothing but their gradient
is written. Written with Triton, which comes with torch's CUDA builds.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Columns that a program works on at once.
BLOCK = 4096
WARPS = 8


@triton.jit
def _forward_kernel(logits, targets, losses, log_totals, classes, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * width
    columns = tl.arange(0, BLOCK)
    largest = float("-inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        x = tl.load(logits + start + columns, start + columns < classes, other=float("-inf"))
        x = x.to(tl.float32)
        larger = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), 0)
        largest = larger
    log_total = largest + tl.log(total)
    target = tl.load(logits + tl.load(targets + row)).to(tl.float32)
    tl.store(losses + row, log_total - target)
    tl.store(log_totals + row, log_total)


@triton.jit
def _backward_kernel(
    grad_losses, logits, targets, log_totals, grad_logits, classes, width, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + row * width + columns, columns < classes, other=float("-inf"))
    probabilities = tl.exp(x.to(tl.float32) - tl.load(log_totals + row))
    truth = tl.where(columns == tl.load(targets + row), 1.0, 0.0)
    gradient = (probabilities - truth) * tl.load(grad_losses + row)
    tl.store(grad_logits + row * width + columns, gradient, columns < width)


def forward(logits: Tensor, targets: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Losses in nats, and the logarithm of what the exponentials add up to; both float32 (rows).

    Args:
        logits: (rows, width), contiguous; columns from `classes` on count for nothing.
        targets: int64 (rows), below `classes`.
    """
    rows, width = logits.shape
    losses, log_totals = (logits.new_empty(rows, dtype=torch.float32) for _ in range(2))
    if rows:
        _forward_kernel[(rows,)](
            logits, targets, losses, log_totals, classes, width, BLOCK=BLOCK, num_warps=WARPS
        )
    return losses, log_totals


def backward(
    grad_losses: Tensor, logits: Tensor, targets: Tensor, log_totals: Tensor, classes: int
) -> Tensor:
    """Gradient of the logits (rows, width); `log_totals` and the others are as in `forward`."""
    rows, width = logits.shape
    grad_logits = torch.empty_like(logits)
    if rows:
        _backward_kernel[(rows, triton.cdiv(width, BLOCK))](
            *(grad_losses, logits, targets, log_totals, grad_logits, classes, width),
            BLOCK=BLOCK,
            num_warps=WARPS,
        )
    return grad_logits

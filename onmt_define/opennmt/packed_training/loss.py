"""Cross-entropy whose gradient takes the place of the scores.

PyTorch's own keeps four more tensors of that size, the largest of a training, and goes through each
of them from memory. A compiler does without them too, but only where there is one.
"""

from typing import Any

import torch
from torch import Tensor

SCORES_AT_ONCE = 2**18  # of a CPU: 1 MiB, which its caches hold from one operation to the next


def cross_entropy(
    scores: Tensor, labels: Tensor, padding: int, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Summed loss in nats and number of right predictions, both without dimensions.

    The loss is that of `torch.nn.functional.cross_entropy`; its gradient can be asked for once. A
    label that shares the highest score with another entry counts as right.

    Args:
        scores: (tokens, vocabulary), float32; overwritten.
        labels: (tokens), ids.
        padding: the label of tokens that don't count.
        label_smoothing: share of a label's weight that all entries of the vocabulary get.
    """
    return _CrossEntropy.apply(scores, labels, padding, label_smoothing)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, scores: Tensor, labels: Tensor, padding: int, label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        # PyTorch refuses the gradient of a layer that has kept its scores, since they change.
        context.gradient = scores.detach()
        on_cpu = scores.device.type == "cpu"
        rows = max(1, SCORES_AT_ONCE // scores.shape[1]) if on_cpu else len(scores)
        parts = [
            _replace_by_gradient(part, of_part, of_part != padding, label_smoothing)
            for part, of_part in zip(context.gradient.split(rows), labels.split(rows), strict=True)
        ]
        loss, right = (torch.stack(each).sum() for each in zip(*parts, strict=True))
        context.mark_non_differentiable(right)
        return loss, right

    @staticmethod
    def backward(context: Any, scale: Tensor, _: Any) -> tuple[Tensor, None, None, None]:
        gradient, context.gradient = context.gradient, None
        return gradient.mul_(scale), None, None, None


def _replace_by_gradient(
    scores: Tensor, labels: Tensor, counted: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sum of the losses and number of right predictions of some tokens."""
    labels = labels[:, None]
    scores -= scores.amax(-1, keepdim=True)
    of_labels = scores.gather(-1, labels)[:, 0]
    expected = (1 - label_smoothing) * of_labels
    if label_smoothing:
        expected += label_smoothing * scores.mean(-1)
    total = scores.exp_().sum(-1)
    losses = (total.log() - expected).masked_fill(~counted, 0)
    weights = counted.to(scores.dtype)[:, None]
    scores *= weights / total[:, None]
    if label_smoothing:
        scores -= weights * (label_smoothing / scores.shape[1])
    scores.scatter_add_(-1, labels, weights * (label_smoothing - 1))
    return losses.sum(), ((of_labels == 0) & counted).sum()

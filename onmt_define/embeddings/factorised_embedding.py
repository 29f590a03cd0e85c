"""What all factorised input layers share: a vector depends on its token alone, so it can be kept.

After training every token's vector can be computed once and looked up (section 3.4 of the paper):
`fold` does it for good, evaluation does it by itself until a weight changes.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.embeddings.dimensions import DimensionError, require_between

# Tokens computed at once for a table: bounds the memory of a deep unit's intermediate results.
TOKENS_AT_ONCE = 8192
MAX_VOCABULARY = 1 << 31


class FactorisedEmbedding(nn.Module):
    """Base of the input layers that compute a token's vector instead of storing it.

    In evaluation, where no gradient is asked for, the vectors of the whole vocabulary are computed
    once and looked up from then on. That table is dropped by `train()` and by a pass of which a
    gradient is asked, and rebuilt when a weight was loaded, moved, converted or changed in place.
    Only a write through a parameter's `.data` leaves no trace that could be noticed: call
    `drop_table()` after one.

    Shapes: token ids (...) of type int64 to vectors (..., embedding_dim).

    Args:
        num_embeddings: V, size of the vocabulary.
        embedding_dim: m, width of the result.
        padding_idx: token whose vector is zero and gets no gradient; negative counts from the end.

    Raises:
        DimensionError: naming the argument, its value and what is expected.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        super().__init__()
        require_between("num_embeddings", num_embeddings, 1, MAX_VOCABULARY)
        require_between("embedding_dim", embedding_dim, 1)
        if padding_idx is not None and (
            not isinstance(padding_idx, int)
            or isinstance(padding_idx, bool)
            or not -num_embeddings <= padding_idx < num_embeddings
        ):
            raise DimensionError(
                "padding_idx", padding_idx, f"a token from 0 to {num_embeddings - 1}"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self._table: _Table | None = None

    @abstractmethod
    def compute(self, tokens: Tensor) -> Tensor:
        """The vectors of `tokens`, from the weights: (...) to (..., embedding_dim)."""

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training or torch.compiler.is_compiling():
            return self.compute(tokens)
        weights = list(self.parameters())
        if not _may_keep_a_table(weights):
            # A fused optimizer, which may be next, changes weights without a trace.
            self.drop_table()
            return self.compute(tokens)
        state = _state_of(weights)
        if self._table is None or self._table.state != state:
            self._table = _Table(state, self._compute_all(), [w.detach() for w in weights])
        return functional.embedding(tokens, self._table.vectors)

    def fold(self) -> nn.Embedding:
        """A plain `nn.Embedding` whose outputs are this layer's in evaluation (section 3.4).

        The type and device of the weights are kept. The table holds V x m numbers.
        """
        was_training = self.training
        self.eval()
        try:
            with torch.autocast(next(self.parameters()).device.type, enabled=False):
                vectors = self._compute_all()
        finally:
            self.train(was_training)
        return nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=self.padding_idx)

    def drop_table(self) -> None:
        """Forget the vectors kept for evaluation."""
        self._table = None

    def train(self, mode: bool = True) -> "FactorisedEmbedding":
        if mode:
            self.drop_table()
        return super().train(mode)

    def _compute_all(self) -> Tensor:
        device = next(self.parameters()).device
        with torch.no_grad():
            ids = torch.arange(self.num_embeddings, device=device)
            return torch.cat([self.compute(chunk) for chunk in ids.split(TOKENS_AT_ONCE)])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_table": None}


class _Table(NamedTuple):
    """Vectors of the whole vocabulary and the weights that they were computed from.

    Holding on to the weights' memory keeps a new weight from getting the address of an old one.
    """

    state: tuple[Any, ...]
    vectors: Tensor
    weights: list[Tensor]


def _may_keep_a_table(weights: list[nn.Parameter]) -> bool:
    wants_gradient = torch.is_grad_enabled() and any(w.requires_grad for w in weights)
    # Weights that were made in inference mode don't tell when they change.
    return not wants_gradient and not any(w.is_inference() for w in weights)


def _state_of(weights: list[nn.Parameter]) -> tuple[Any, ...]:
    """Differs whenever other vectors would be computed from the weights than before."""
    device_type = weights[0].device.type
    precision = torch.is_autocast_enabled(device_type) and torch.get_autocast_dtype(device_type)
    return (precision, *((w.data_ptr(), w._version, w.dtype) for w in weights))

"""A mapping layer under a DeFINE unit: token ids in, model-wide vectors out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.embeddings.adaptive_embedding import AdaptiveEmbedding
from onmt_define.embeddings.define_unit import DefineUnit
from onmt_define.embeddings.dimensions import DimensionError
from onmt_define.embeddings.factorised_embedding import FactorisedEmbedding
from onmt_define.embeddings.projective_embedding import ProjectiveEmbedding, reset_token_table

# From this many tokens for each word of the vocabulary on, a GPU computes the whole vocabulary once
# and looks up (benchmarks/unit.py, break-even).
TOKENS_A_VOCABULARY_IS_WORTH = 2


class DefineEmbedding(FactorisedEmbedding):
    """Look up short token vectors and deepen them with a DeFINE unit (Figure 1b of the paper).

    Shapes: token ids (...) of type int64 to vectors (..., embedding_dim).

    Args:
        num_embeddings: V, size of the vocabulary.
        embedding_dim: m, width of the result.
        map_dim: n, width of the vectors e_i that the unit reads.
        expand_dim: k, see `DefineUnit`.
        depth: N, see `DefineUnit`.
        max_groups: g_max, see `DefineUnit`.
        padding_idx: token whose result is zero and that gets no gradient.
        table_dim: width of a projective mapping layer's table. By default the mapping layer is a
            plain table, map_dim wide (Table 3); Table 2 projects narrower ones to map_dim.
        cutoffs: bands of an adaptive mapping layer, see `AdaptiveEmbedding` (Table 1a).
        factor: see `AdaptiveEmbedding`.
        **unit_options: schedule, mix, widths, norm, activation, dropout, reduce and shuffle of
            `DefineUnit`.

    Raises:
        DimensionError: a `ValueError` naming the argument, its value and what would fit.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        map_dim: int,
        expand_dim: int,
        depth: int,
        max_groups: int = 8,
        *,
        padding_idx: int | None = None,
        table_dim: int | None = None,
        cutoffs: Sequence[int] | None = None,
        factor: int = 4,
        **unit_options: Any,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        with _renamed({"input_dim": "map_dim", "output_dim": "embedding_dim"}):
            self.unit = DefineUnit(
                map_dim, embedding_dim, expand_dim, depth, max_groups, **unit_options
            )
        self.embedding_dim = self.unit.output_dim
        self.map_table: nn.Embedding | ProjectiveEmbedding | AdaptiveEmbedding
        if cutoffs is not None and table_dim is not None:
            raise DimensionError("table_dim", table_dim, "None beside cutoffs: choose one of them")
        if cutoffs is not None:
            with _renamed({"embedding_dim": "map_dim"}):
                self.map_table = AdaptiveEmbedding(
                    num_embeddings, map_dim, cutoffs, factor, padding_idx=padding_idx
                )
        elif table_dim is not None:
            with _renamed({"map_dim": "table_dim"}):
                self.map_table = ProjectiveEmbedding(
                    num_embeddings, map_dim, table_dim, padding_idx=padding_idx
                )
        else:
            self.map_table = nn.Embedding(num_embeddings, map_dim, padding_idx=self.padding_idx)
            reset_token_table(self.map_table)

    def reset_parameters(self) -> None:
        """Token vectors of about unit length; the unit's own initialisation."""
        if isinstance(self.map_table, nn.Embedding):
            reset_token_table(self.map_table)
        else:
            self.map_table.reset_parameters()
        self.unit.reset_parameters()

    def compute(self, tokens: Tensor) -> Tensor:
        # With dropout equal tokens must get different masks.
        is_random = self.training and self.unit.dropout.p > 0
        if is_random or torch.compiler.is_compiling():
            return self._compute_each(tokens)
        if tokens.device.type == "cpu":
            distinct, places = torch.unique(tokens, return_inverse=True)
            return functional.embedding(places, self._compute_each(distinct))
        # A GPU would have to wait to learn how many distinct tokens there are.
        if tokens.numel() >= TOKENS_A_VOCABULARY_IS_WORTH * self.num_embeddings:
            return self._compute_vocabulary(tokens)
        return self._compute_each(tokens)

    def _compute_vocabulary(self, tokens: Tensor) -> Tensor:
        """Compute every token of the vocabulary once and look up."""
        everything = torch.arange(self.num_embeddings, device=tokens.device)
        return functional.embedding(tokens, self._compute_each(everything))

    def _compute_each(self, tokens: Tensor) -> Tensor:
        """Compute every token by itself, equal ones too."""
        vectors = self.unit(self.map_table(tokens))
        if self.padding_idx is None:
            return vectors
        # The norms' shifts and Reduce's bias would make a zero input non-zero.
        return vectors.masked_fill((tokens == self.padding_idx).unsqueeze(-1), 0.0)


@contextmanager
def _renamed(names: dict[str, str]) -> Iterator[None]:
    """Have a part's complaint name the argument that it was given here."""
    try:
        yield
    except DimensionError as error:
        name = names.get(error.argument, error.argument)
        raise DimensionError(name, error.value, error.expected) from None

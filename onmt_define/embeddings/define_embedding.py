"""A token table under a DeFINE unit: token ids in, model-wide vectors out."""

from torch import Tensor, nn

from onmt_define.embeddings.define_unit import DefineUnit
from onmt_define.embeddings.projective_embedding import reset_map_table


class DefineEmbedding(nn.Module):
    """Look up short token vectors and deepen them with a DeFINE unit (Figure 1b of the paper).

    Shapes: token ids (...) of type int64 to vectors (..., embedding_dim).

    Args:
        num_embeddings: V, size of the vocabulary.
        embedding_dim: m, width of the result.
        map_dim: n, width of the token table.
        expand_dim: k, see `DefineUnit`.
        depth: N, see `DefineUnit`.
        max_groups: g_max, see `DefineUnit`.
        padding_idx: token whose result is zero and that gets no gradient.
        dropout: see `DefineUnit`.

    Raises:
        DimensionError: see `DefineUnit`.
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
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.unit = DefineUnit(
            map_dim, embedding_dim, expand_dim, depth, max_groups, dropout=dropout
        )
        self.map_table = nn.Embedding(num_embeddings, map_dim, padding_idx=padding_idx)
        self.reset_parameters()

    @property
    def padding_idx(self) -> int | None:
        """Token whose result is zero, if any."""
        return self.map_table.padding_idx

    def reset_parameters(self) -> None:
        """Token vectors of about unit length; the unit's own initialisation."""
        reset_map_table(self.map_table)
        self.unit.reset_parameters()

    def forward(self, tokens: Tensor) -> Tensor:
        vectors = self.unit(self.map_table(tokens))
        if self.padding_idx is None:
            return vectors
        # The norms' shifts and Reduce's bias would make a zero input non-zero.
        return vectors.masked_fill((tokens == self.padding_idx).unsqueeze(-1), 0.0)

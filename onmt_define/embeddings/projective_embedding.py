"""A factorised table: a short vector for each token and one shared linear map."""

from torch import Tensor, nn

from onmt_define.embeddings.dimensions import require_between
from onmt_define.embeddings.factorised_embedding import FactorisedEmbedding


class ProjectiveEmbedding(FactorisedEmbedding):
    """Look up short token vectors and project them (the paper's 'projective' baseline, Table 2).

    Shapes: token ids (...) of type int64 to vectors (..., embedding_dim).

    Args:
        num_embeddings: V, size of the vocabulary.
        embedding_dim: m, width of the result.
        map_dim: n, width of the table.
        padding_idx: token whose vector is zero and gets no gradient.

    Raises:
        DimensionError: naming the argument, its value and what is expected.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        map_dim: int,
        *,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        require_between("map_dim", map_dim, 1)
        self.map_dim = map_dim
        self.map_table = nn.Embedding(num_embeddings, map_dim, padding_idx=self.padding_idx)
        self.projection = nn.Linear(map_dim, embedding_dim, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Token vectors of about unit length, Xavier-uniform projection."""
        reset_token_table(self.map_table)
        nn.init.xavier_uniform_(self.projection.weight)

    def compute(self, tokens: Tensor) -> Tensor:
        return self.projection(self.map_table(tokens))


def reset_token_table(table: nn.Embedding) -> None:
    """Draw from N(0, 1/width), so that a token's vector has about unit length; zero the padding."""
    nn.init.normal_(table.weight, std=table.embedding_dim**-0.5)
    if table.padding_idx is not None:
        nn.init.zeros_(table.weight[table.padding_idx])

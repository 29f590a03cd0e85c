"""An input layer that holds a few short codes for each token instead of its vector.

Compositional coding (Shu and Nakayama, 2017; Table 5 of the paper): a token's vector is the sum of
one codeword out of each of M codebooks with K codewords, and the token itself is M numbers below K,
4 bits each for K = 16. The codes are learned from a trained layer (onmt_define.compression).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.embeddings.dimensions import require_between
from onmt_define.embeddings.factorised_embedding import MAX_VOCABULARY
from onmt_define.embeddings.packed_codes import (
    MAX_BITS,
    bits_per_code,
    bytes_per_row,
    pack,
    unpack,
)


class CompressedEmbedding(nn.Module):
    """Look up each token's codes and add up the codewords that they name.

    Only the vectors of the tokens asked for are ever in memory.

    Shapes: token ids (...) of type int64 to vectors (..., embedding_dim).

    Args:
        num_embeddings: V, size of the vocabulary.
        embedding_dim: m, width of the result.
        codebooks: M, codewords that are added up for a token.
        codes: K, codewords in each codebook, from 2 to 65,536.
        padding_idx: token whose vector is zero.

    Raises:
        DimensionError: naming the argument, its value and what is expected.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        codebooks: int,
        codes: int,
        *,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        require_between("num_embeddings", num_embeddings, 1, MAX_VOCABULARY)
        require_between("embedding_dim", embedding_dim, 1)
        require_between("codebooks", codebooks, 1)
        require_between("codes", codes, 2, 1 << MAX_BITS)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.codebooks, self.codes, self.padding_idx = codebooks, codes, padding_idx
        self.bits = bits_per_code(codes)
        width = bytes_per_row(codebooks, self.bits)
        self.packed_codes: Tensor
        self.register_buffer("packed_codes", torch.zeros(num_embeddings, width, dtype=torch.uint8))
        self.codewords = nn.Parameter(torch.zeros(codebooks * codes, embedding_dim))

    def set_codes(self, codes: Tensor, codewords: Tensor) -> None:
        """Take over learned codes (V, M) and codewords (M * K, m), the first codebook's first."""
        self.packed_codes = pack(codes, self.bits)
        self.codewords = nn.Parameter(codewords)

    def forward(self, tokens: Tensor) -> Tensor:
        rows = self.packed_codes[tokens.flatten()]
        starts = torch.arange(self.codebooks, device=tokens.device) * self.codes
        places = unpack(rows, self.codebooks, self.bits) + starts
        vectors = functional.embedding_bag(places, self.codewords, mode="sum")
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((tokens == self.padding_idx).view(-1, 1), 0.0)
        return vectors.unflatten(0, tokens.shape) if tokens.dim() else vectors[0]

    def extra_repr(self) -> str:
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, codebooks={self.codebooks}, "
            f"codes={self.codes}"
        )

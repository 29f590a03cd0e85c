"""The adaptive input layer (Baevski and Auli, 2019): rarer tokens get shorter vectors."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from onmt_define.embeddings.dimensions import DimensionError, require_between
from onmt_define.embeddings.factorised_embedding import FactorisedEmbedding
from onmt_define.embeddings.projective_embedding import reset_token_table


class AdaptiveEmbedding(FactorisedEmbedding):
    """Look up each token in the table of its frequency band; project all but the widest.

    Tokens must be numbered by falling frequency. Band b holds vectors of embedding_dim / factor**b
    numbers, and every narrower band than the first has a projection to embedding_dim. The first
    has none: that is what reproduces the input-output counts of Table 1a.

    Shapes: token ids (...) of type int64 to vectors (..., embedding_dim).

    Args:
        num_embeddings: V, size of the vocabulary.
        embedding_dim: width of the result.
        cutoffs: first token of each band but the first, rising. The paper's counts need
            20,000, 40,000 and 200,000 for WikiText-103.
        factor: by how much a band's vectors are shorter than those of the band before.
        padding_idx: token whose vector is zero and gets no gradient.

    Raises:
        DimensionError: naming the argument, its value and what is expected.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        cutoffs: Sequence[int],
        factor: int = 4,
        *,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        require_between("factor", factor, 1)
        self.bounds = _check_cutoffs(cutoffs, num_embeddings)
        self.cutoffs, self.factor = list(cutoffs), factor
        widths = [embedding_dim // factor**band for band in range(len(self.bounds) - 1)]
        if widths[-1] < 1:
            least = factor ** (len(widths) - 1)
            expected = f"at least {least} for {len(widths)} bands of factor {factor}"
            raise DimensionError("embedding_dim", embedding_dim, expected)
        self.tables = nn.ModuleList(
            nn.Embedding(stop - start, width, padding_idx=self._padding_within(start, stop))
            for (start, stop), width in zip(self._bands(), widths, strict=True)
        )
        self.projections = nn.ModuleList(
            nn.Identity() if width == embedding_dim else nn.Linear(width, embedding_dim, bias=False)
            for width in widths
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Token vectors of about unit length in each band, Xavier-uniform projections."""
        for table, projection in zip(self.tables, self.projections, strict=True):
            reset_token_table(table)
            if isinstance(projection, nn.Linear):
                nn.init.xavier_uniform_(projection.weight)

    def compute(self, tokens: Tensor) -> Tensor:
        # Every band looks at every token: cheap at these widths, and choosing a band's tokens
        # would make a GPU wait to learn how many there are.
        vectors = None
        for (start, stop), table, projection in zip(
            self._bands(), self.tables, self.projections, strict=True
        ):
            places = tokens - start
            if start > 0:
                places = places.clamp(min=0)
            if stop < self.num_embeddings:
                places = places.clamp(max=stop - start - 1)
            band = projection(table(places))
            is_later = (tokens >= start).unsqueeze(-1)
            vectors = band if vectors is None else torch.where(is_later, band, vectors)
        return vectors

    def _bands(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.bounds))

    def _padding_within(self, start: int, stop: int) -> int | None:
        inside = self.padding_idx is not None and start <= self.padding_idx < stop
        return self.padding_idx - start if inside else None


def _check_cutoffs(cutoffs: Sequence[int], num_embeddings: int) -> list[int]:
    """The bounds of all bands, from 0 to the vocabulary's size."""
    numbers = list(cutoffs) if isinstance(cutoffs, Sequence) else [None]
    are_whole = all(isinstance(each, int) and not isinstance(each, bool) for each in numbers)
    bounds = [0, *numbers, num_embeddings]
    if not are_whole or any(stop <= start for start, stop in itertools.pairwise(bounds)):
        raise DimensionError(
            "cutoffs", cutoffs, f"rising numbers between 0 and num_embeddings ({num_embeddings})"
        )
    return bounds

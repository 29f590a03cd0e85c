"""The input layer of a trained model, of whatever type, and the vectors it gives its vocabulary."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from onmt_define.embeddings.factorised_embedding import TOKENS_AT_ONCE, FactorisedEmbedding


class InputLayer(NamedTuple):
    """A module that maps token ids (...) to vectors (..., m), and how many tokens it knows."""

    module: nn.Module
    num_embeddings: int
    padding_idx: int | None = None

    def token_chunks(self) -> Iterator[Tensor]:
        """The ids of all tokens, a few thousand at a time."""
        yield from torch.arange(self.num_embeddings).split(TOKENS_AT_ONCE)

    @torch.no_grad()
    def vectors(self, tokens: Tensor) -> Tensor:
        """The vectors of some tokens in evaluation, without keeping a table of all of them."""
        module = self.module.eval()
        return module.compute(tokens) if isinstance(module, FactorisedEmbedding) else module(tokens)

    def table(self) -> Tensor:
        """The vectors of all tokens, (num_embeddings, m), computed in single precision."""
        self.module.float()
        return torch.cat([self.vectors(tokens) for tokens in self.token_chunks()])

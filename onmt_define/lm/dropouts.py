"""The dropouts of Merity et al. (2018b): one mask over time, and whole word types."""

from torch import Tensor, nn
from torch.nn import functional


class VariationalDropout(nn.Module):
    """Zero the same features of a sequence at every time step (Gal and Ghahramani, 2016).

    Shapes: (time, batch, width) to the same.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, sequence: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return sequence
        mask = functional.dropout(sequence.new_ones(1, *sequence.shape[1:]), self.probability)
        return sequence * mask

    def extra_repr(self) -> str:
        return f"{self.probability}"


class WordDropout(nn.Module):
    """Zero the vectors of random word types, wherever in the batch they stand.

    Merity et al. call it embedding dropout and zero rows of the token table; zeroing what the input
    layer makes of a token is the same for a plain table and defined for any other layer.

    Shapes: vectors (..., width) and their token ids (...) to the same as the vectors.
    """

    def __init__(self, probability: float, vocabulary_size: int) -> None:
        super().__init__()
        self.probability = probability
        self.vocabulary_size = vocabulary_size

    def forward(self, vectors: Tensor, tokens: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return vectors
        mask = functional.dropout(vectors.new_ones(self.vocabulary_size, 1), self.probability)
        return vectors * functional.embedding(tokens, mask)

    def extra_repr(self) -> str:
        return f"{self.probability}"

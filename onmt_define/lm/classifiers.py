"""The output layer of a language model: from hidden vectors to the loss of each next token.

V  vocabulary_size  number of token types
d  hidden_dim       width of what the context model gives
n  dim              width of the token tables
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from onmt_define.embeddings import DimensionError
from onmt_define.lm.token_losses import token_losses


class Softmax(nn.Module):
    """Softmax over the whole vocabulary.

    Shapes: hidden (..., d) and targets (...) of type int64 to losses in nats (...).

    Args:
        table: a vector for each token type (V, n), perhaps the input layer's own.
        projection: matrix (d, n) from hidden vectors to the table's width; None where d is n.
        bias: whether each token type has a bias.
    """

    cutoffs: tuple[int, ...] = ()

    def __init__(self, table: nn.Parameter, projection: nn.Parameter | None, bias: bool) -> None:
        super().__init__()
        self.table = table
        self.projection = projection
        self.bias = nn.Parameter(torch.zeros(table.shape[0])) if bias else None

    def forward(
        self, hidden: Tensor, targets: Tensor, band_sizes: Sequence[int] | None = None
    ) -> Tensor:
        """`band_sizes` is of no use here; every classifier takes it."""
        own = _project(hidden.flatten(0, -2), self.projection)
        return token_losses(own, self.table, self.bias, targets.flatten()).view_as(targets)


class AdaptiveSoftmax(nn.Module):
    """Softmax in two steps: a frequent token or a band, then a token of that band (Grave et al.).

    Tokens must be numbered by falling frequency. The first band's tokens stand beside one entry for
    each later band; a later band's own softmax is computed only for the tokens in it.

    Two forms are known from the literature. With one table for each band, narrower from band to
    band, it is the adaptive softmax of Grave et al. (2017a) with the tying of Baevski and Auli
    (2019); the paper's Table 1a counts no biases. With a single table, cut into bands, it is
    Transformer-XL's (Dai et al., 2019), factor 1; the paper's Table 2 counts biases.

    Shapes: hidden (..., d) and targets (...) of type int64 to losses in nats (...).

    Args:
        tables: the vectors of each band's tokens (V_b, n_b), or one table (V, n) of all.
        projections: for each band the matrix (d, n_b), None where n_b is d.
        cutoffs: first token of each band but the first, rising.
        bias: whether each token type and each later band has a bias.
    """

    def __init__(
        self,
        tables: Sequence[nn.Parameter],
        projections: Sequence[nn.Parameter | None],
        cutoffs: Sequence[int],
        bias: bool,
    ) -> None:
        super().__init__()
        vocabulary_size = sum(table.shape[0] for table in tables)
        self.bounds = [0, *cutoffs, vocabulary_size]
        self.sizes = [stop - start for start, stop in itertools.pairwise(self.bounds)]
        if min(self.sizes) < 1:
            raise DimensionError(
                "cutoffs", list(cutoffs), f"rising numbers between 0 and {vocabulary_size}"
            )
        self.cutoffs = tuple(cutoffs)
        self.tables = nn.ParameterList(tables)
        # A ParameterList can't hold None.
        for band, projection in enumerate(projections):
            self.register_parameter(f"projection{band}", projection)
        self.clusters = nn.Parameter(torch.empty(len(cutoffs), tables[0].shape[1]))
        nn.init.normal_(self.clusters, std=tables[0].shape[1] ** -0.5)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size)) if bias else None
        self.cluster_bias = nn.Parameter(torch.zeros(len(cutoffs))) if bias else None
        self.register_buffer("boundaries", torch.tensor(self.cutoffs), persistent=False)

    def forward(
        self, hidden: Tensor, targets: Tensor, band_sizes: Sequence[int] | None = None
    ) -> Tensor:
        """With `band_sizes`, the number of targets in each band, nothing waits for a GPU."""
        shape, hidden, targets = targets.shape, hidden.flatten(0, -2), targets.flatten()
        bands = torch.bucketize(targets, self.boundaries, right=True)
        if band_sizes is None:
            band_sizes = torch.bincount(bands, minlength=len(self.sizes)).tolist()
        tables, biases = self._tables(), self._biases()

        head = torch.cat([tables[0], self.clusters])
        head_bias = None if biases[0] is None else torch.cat([biases[0], self.cluster_bias])
        choices = torch.where(bands > 0, self.sizes[0] + bands - 1, targets)
        losses = token_losses(_project(hidden, self.projection0), head, head_bias, choices)

        # Empty bands take part too: when several GPUs add up gradients, none may be missing.
        rows = torch.argsort(bands, stable=True).split(list(band_sizes))
        for band in range(1, len(self.sizes)):
            own = _project(hidden.index_select(0, rows[band]), getattr(self, f"projection{band}"))
            within = targets.index_select(0, rows[band]) - self.bounds[band]
            tail = token_losses(own, tables[band], biases[band], within)
            losses = losses.index_add(0, rows[band], tail)
        return losses.view(shape)

    def _tables(self) -> Sequence[Tensor]:
        # One split, not a slice for each band: its gradient is put together in a single pass.
        return list(self.tables) if len(self.tables) > 1 else self.tables[0].split(self.sizes)

    def _biases(self) -> Sequence[Tensor | None]:
        return [None] * len(self.sizes) if self.bias is None else self.bias.split(self.sizes)

    def extra_repr(self) -> str:
        return f"cutoffs={list(self.cutoffs)}"


def _project(hidden: Tensor, projection: Tensor | None) -> Tensor:
    return hidden if projection is None else hidden @ projection

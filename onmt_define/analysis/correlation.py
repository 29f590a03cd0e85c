"""Correlation maps of an input layer (section 4.3, Appendix B, Figures 4 and 7 to 11 of the paper).

The paper's M = E^T E of a table E of V tokens and m dimensions says how far two dimensions do the
same; identity means that they are independent. It is "normalised between 0 and 1" without saying
how; here each entry is divided by the lengths of its two columns and loses its sign, so that M is
the absolute cosine between dimensions: 0 for independent ones, 1 on the diagonal. As in the paper,
columns are not centred, so a dimension whose mean isn't zero correlates with others like it. After
an activation that lets more through above zero than below, all dimensions are like that; a second
number, with the columns centred, tells what is left without it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from onmt_define.embeddings import DefineEmbedding, ProjectiveEmbedding
from onmt_define.embeddings.input_layer import InputLayer

# A column's variance as a part of its mean square, below which single precision tells nothing.
SMALLEST_VARIANCE = 1e-4


@dataclass(frozen=True)
class CorrelationMap:
    """The map of one stage of an input layer.

    `values` (width, width) goes from 0 to 1. `groups` is the number of groups of the map that made
    the stage's output; 1 where it has none. `centred` is as `values`, of columns that have lost
    their mean: the absolute correlation coefficient.
    """

    stage: str
    groups: int
    values: Tensor
    centred: Tensor

    @property
    def width(self) -> int:
        return len(self.values)

    @property
    def off_diagonal(self) -> float:
        """Mean over all pairs of different dimensions; 0 if they are all independent."""
        return _off_diagonal_mean(self.values)

    @property
    def centred_off_diagonal(self) -> float:
        """The same without what all tokens have in common, the mean of each column."""
        return _off_diagonal_mean(self.centred)

    @property
    def between_groups(self) -> float | None:
        """Mean over all pairs of dimensions of different groups (Figure 11); None without them."""
        means = self.group_means
        return None if means is None else _off_diagonal_mean(means)

    @property
    def group_means(self) -> Tensor | None:
        """Mean over the pairs of each two groups, (groups, groups); None without groups.

        On the diagonal, a dimension's pair with itself doesn't count.
        """
        if self.groups == 1:
            return None
        size = self.width // self.groups
        blocks = self.values.unflatten(0, (self.groups, size)).unflatten(2, (self.groups, size))
        sums = blocks.sum((1, 3))
        pairs = torch.full_like(sums, size * size)
        sums -= self.values.diagonal().unflatten(0, (self.groups, size)).sum(1).diag()
        pairs.fill_diagonal_(max(1, size * (size - 1)))
        return sums / pairs


def correlation_maps(layer: InputLayer) -> list[CorrelationMap]:
    """The maps of a layer, stage by stage.

    A DeFINE layer has its mapping layer, each map of its unit, and Reduce; a projective one its
    table and the projection; any other one stage. The vocabulary streams through in chunks: what is
    held is one matrix a stage, never a table of all tokens.
    """
    stages = _stages(layer.module.float().eval())
    totals: list[_Total] = []
    for tokens in layer.token_chunks():
        with torch.no_grad():
            for index, output in enumerate(stages.outputs(tokens)):
                if index == len(totals):
                    totals.append(_Total(output.shape[1]))
                totals[index].add(output)
    return [
        CorrelationMap(
            name, groups, _absolute_cosines(total.product), _absolute_cosines(total.centred())
        )
        for name, groups, total in zip(stages.names, stages.groups, totals, strict=True)
    ]


class _Total:
    """E^T E and the sums of E's columns, for a table E of which some rows come at a time."""

    def __init__(self, width: int) -> None:
        self.product = torch.zeros(width, width, dtype=torch.float64)
        self.sums = torch.zeros(width, dtype=torch.float64)
        self.rows = 0

    def add(self, rows: Tensor) -> None:
        self.product += rows.T @ rows
        self.sums += rows.sum(0, dtype=torch.float64)
        self.rows += len(rows)

    def centred(self) -> Tensor:
        """E^T E once E's columns have lost their means; 0 where only rounding would be left."""
        centred = self.product - self.sums.outer(self.sums) / self.rows
        varies = centred.diagonal() > SMALLEST_VARIANCE * self.product.diagonal()
        return centred * varies * varies.unsqueeze(1)


@dataclass(frozen=True)
class _Stages:
    """Names and groups of a layer's stages, and the function that gives their outputs in order."""

    names: list[str]
    groups: list[int]
    outputs: Callable[[Tensor], Iterator[Tensor]]


def _stages(module: nn.Module) -> _Stages:
    if isinstance(module, DefineEmbedding):
        unit = module.unit
        names = [f"layer {number}" for number in range(1, len(unit.groups) + 1)]
        if unit.reduce:
            names[-1] = "reduce"

        def through_unit(tokens: Tensor) -> Iterator[Tensor]:
            inputs = module.map_table(tokens)
            yield inputs
            yield from unit.layer_outputs(inputs)

        return _Stages(["mapping layer", *names], [1, *unit.groups], through_unit)
    if isinstance(module, ProjectiveEmbedding):

        def through_projection(tokens: Tensor) -> Iterator[Tensor]:
            inputs = module.map_table(tokens)
            yield inputs
            yield module.projection(inputs)

        return _Stages(["mapping layer", "projection"], [1, 1], through_projection)
    return _Stages(["embedding"], [1], lambda tokens: iter([InputLayer(module, 0).vectors(tokens)]))


def _absolute_cosines(product: Tensor) -> Tensor:
    """|M| over the lengths of the columns; a dimension that is always 0 correlates with none."""
    lengths = product.diagonal().sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    values = (product.abs() * scale * scale.unsqueeze(1)).clamp(max=1.0)
    return values.fill_diagonal_(1.0).float()


def _off_diagonal_mean(values: Tensor) -> float:
    """Mean over all entries but the diagonal's; 0 where there are no others."""
    pairs = values.numel() - len(values)
    total = values.double().sum() - values.double().diagonal().sum()
    return total.item() / pairs if pairs else 0.0

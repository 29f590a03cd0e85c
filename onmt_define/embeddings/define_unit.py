"""The DeFINE unit (Mehta et al., ICLR 2020, section 3): a deep map from a token's short vector.

The paper's symbols and the names used here:

    n  input_dim   width of e_i, the short vector that the token table holds
    k  expand_dim  width towards which the group maps grow
    m  output_dim  width of e_o, what the sequence model reads
    N  depth       number of linear maps: N - 1 group maps, then Reduce
    g  groups      number of groups of a map; g_max is max_groups

The widths and groups follow the rule that reproduces every parameter count printed in the paper's
language-model tables. It differs from the text: N counts Reduce, the widths start at n and stop
one step short of k, and the groups run through powers of two cyclically, ending at 1 on Reduce.
"""

import torch
from torch import Tensor, nn

from onmt_define.embeddings.dimensions import DimensionError, require_at_least, require_multiple
from onmt_define.embeddings.group_linear import GroupLinear

# The paper's deepest unit has 11 maps. A mistyped depth must fail before a list is made of it.
MAX_DEPTH = 100


def cyclic_groups(depth: int, max_groups: int) -> list[int]:
    """Groups of the `depth` maps: 1, 2, 4, ..., max_groups, 1, 2, ... read backwards."""
    powers = [2**power for power in range(max_groups.bit_length())]
    return [powers[index % len(powers)] for index in reversed(range(depth))]


def layer_widths(input_dim: int, expand_dim: int, depth: int, max_groups: int) -> list[int]:
    """Output widths of the depth - 1 group maps.

    Evenly spaced from input_dim towards expand_dim without reaching it, rounded down to multiples
    of max_groups.
    """
    steps = depth - 1
    return [
        (input_dim * steps + (expand_dim - input_dim) * index) // (steps * max_groups) * max_groups
        for index in range(steps)
    ]


def split_and_mix(inputs: Tensor, hidden: Tensor, groups: int) -> Tensor:
    """Give each group of the coming map its share of the unit's input (section 3.2, 'mixer').

    Both tensors are cut into `groups` consecutive chunks; chunk j of `inputs` goes in front of
    chunk j of `hidden`. Shapes: (..., n) and (..., h) to (..., n + h).
    """
    chunks = [tensor.unflatten(-1, (groups, -1)) for tensor in (inputs, hidden)]
    return torch.cat(chunks, dim=-1).flatten(-2)


class DefineUnit(nn.Module):
    """Map short token vectors e_i to the vectors e_o that the sequence model reads.

    The first group map sees e_i alone; every later map, Reduce included, sees
    Dropout(GELU(LayerNorm(split_and_mix(e_i, previous output)))).

    Shapes: input (..., input_dim), output (..., output_dim).

    Args:
        input_dim: n, a multiple of `max_groups`.
        output_dim: m.
        expand_dim: k, at least n.
        depth: N, from 2 to 100.
        max_groups: g_max, a power of two.
        dropout: probability of zeroing a feature before maps 2 to N.

    Raises:
        DimensionError: naming the argument, its value and what would fit.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        expand_dim: int,
        depth: int,
        max_groups: int = 8,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_unit_dimensions(input_dim, output_dim, expand_dim, depth, max_groups)
        self.input_dim, self.output_dim, self.expand_dim = input_dim, output_dim, expand_dim
        self.depth, self.max_groups = depth, max_groups
        self.groups = cyclic_groups(depth, max_groups)
        self.widths = [*layer_widths(input_dim, expand_dim, depth, max_groups), output_dim]

        inputs = [input_dim, *(width + input_dim for width in self.widths[:-1])]
        self.maps = nn.ModuleList(
            GroupLinear(width_in, width_out, groups, bias=index == depth)
            for index, (width_in, width_out, groups) in enumerate(
                zip(inputs, self.widths, self.groups, strict=True), start=1
            )
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in inputs[1:])
        self.activation = nn.GELU()
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Xavier-uniform for each matrix of each map, zero bias, unit gain in the norms."""
        for layer in [*self.maps, *self.norms]:
            layer.reset_parameters()

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.maps[0](inputs)
        for linear, norm, groups in zip(self.maps[1:], self.norms, self.groups[1:], strict=True):
            mixed = split_and_mix(inputs, hidden, groups)
            hidden = linear(self.dropout(self.activation(norm(mixed))))
        return hidden


def check_unit_dimensions(
    input_dim: int, output_dim: int, expand_dim: int, depth: int, max_groups: int
) -> None:
    """Raise `DimensionError` for sizes from which no unit can be built."""
    require_at_least("input_dim", input_dim, 1)
    require_at_least("output_dim", output_dim, 1)
    require_at_least("depth", depth, 2)
    if depth > MAX_DEPTH:
        raise DimensionError("depth", depth, f"at most {MAX_DEPTH}")
    require_at_least("max_groups", max_groups, 1)
    if max_groups & (max_groups - 1):
        below = 1 << (max_groups.bit_length() - 1)
        raise DimensionError("max_groups", max_groups, f"a power of two, {below} or {2 * below}")
    require_multiple("input_dim", input_dim, max_groups, "the largest number of groups")
    require_at_least("expand_dim", expand_dim, input_dim)

"""The DeFINE unit (Mehta et al., ICLR 2020, section 3): a deep map from a token's short vector.

The paper's symbols and the names used here:

    n  input_dim   width of e_i, the short vector that the token table holds
    k  expand_dim  width towards which the group maps grow
    m  output_dim  width of e_o, what the sequence model reads
    N  depth       number of linear maps: N - 1 group maps, then Reduce
    g  groups      number of groups of a map; g_max is max_groups

With its defaults the unit follows the rule that reproduces every parameter count printed in the
paper's language-model tables. That rule differs from the text: N counts Reduce, the widths start
at n and stop one step short of k, and the groups run through powers of two cyclically, ending at 1
on Reduce. `widths="literal"` builds what the text says.

The paper names no activation. tanh, an odd function, is the default because after GELU all tokens
have a large vector in common, which grows with every map and slows training down or stops it.
"""

from collections.abc import Iterator
from functools import cached_property, partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.embeddings.dimensions import (
    require_between,
    require_multiple,
    require_one_of,
    require_probability,
)
from onmt_define.embeddings.fused_unit import can_fuse, fused_forward, has_fused_form
from onmt_define.embeddings.group_linear import GroupLinear
from onmt_define.embeddings.group_schedules import SCHEDULES, check_schedule
from onmt_define.embeddings.mixing import LINKED_MIXES, MIXES, shuffle_groups

# The paper's deepest unit has 11 maps. A mistyped depth must fail before a list is made of it.
MAX_DEPTH = 100

NORMS = ("layer", "none")
ACTIVATIONS = {
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "relu": functional.relu,
    "none": None,
}


class DefineUnit(nn.Module):
    """Map short token vectors e_i to the vectors e_o that the sequence model reads.

    The first group map sees e_i alone; every later map, Reduce included, sees
    Dropout(activation(norm(mix(e_i, previous output)))). Only Reduce has a bias.

    Shapes: input (..., input_dim), output (..., output_dim).

    Args:
        input_dim: n, a multiple of `max_groups`.
        output_dim: m. Without Reduce the result is k wide whatever is given here.
        expand_dim: k, at least n.
        depth: N, from 2 to 100. With literal widths the number of group maps, Reduce not counted.
        max_groups: g_max, a power of two unless the schedule is constant.
        schedule: groups of each map: "cyclic" (the printed counts), "halving" (Equation 1) or
            "constant" (group linear transforms; plain linear maps with `max_groups` 1). By default
            cyclic with printed widths and halving with literal ones.
        mix: "split" (section 3.3: split, then mixed group by group), "concat" (Table 6b, 'without
            mixer'), "none" (Figure 2c, no link to the input) or "residual" (Table 8a: all group
            maps `expand_dim` wide, each adding its input where the widths agree).
        widths: "printed" (from n in N - 1 steps of (k - n) / (N - 1) without the last, rounded
            down to multiples of `max_groups`) or "literal" (section 3.2: N group maps whose widths
            grow evenly and reach k, then a dense Reduce that sees the last one alone).
        norm: "layer" or "none", of what each map but the first sees.
        activation: "tanh", "gelu", "silu", "relu" or "none".
        dropout: probability of zeroing a feature before each map but the first.
        reduce: False leaves the result k wide (Table 8b, '- Reduce').
        shuffle: interleave the groups of each map's output (Table 6a, 'GLT + Shuffle').

    Raises:
        DimensionError: a `ValueError` naming the argument, its value and what would fit.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        expand_dim: int,
        depth: int,
        max_groups: int = 8,
        *,
        schedule: str | None = None,
        mix: str = "split",
        widths: str = "printed",
        norm: str = "layer",
        activation: str = "tanh",
        dropout: float = 0.0,
        reduce: bool = True,
        shuffle: bool = False,
    ) -> None:
        super().__init__()
        require_one_of("widths", widths, _WIDTH_RULES)
        require_one_of("mix", mix, MIXES)
        require_one_of("norm", norm, NORMS)
        require_one_of("activation", activation, ACTIVATIONS)
        require_probability("dropout", dropout)
        require_one_of("reduce", reduce, (True, False))
        require_one_of("shuffle", shuffle, (True, False))
        if schedule is None:
            schedule = {"printed": "cyclic", "literal": "halving"}[widths]
        _check_sizes(input_dim, output_dim, expand_dim, depth, max_groups, schedule)
        self.input_dim, self.expand_dim = input_dim, expand_dim
        self.depth, self.max_groups = depth, max_groups
        self.schedule, self.mix, self.reduce, self.shuffle = schedule, mix, reduce, shuffle
        self.activation = activation

        self.groups = SCHEDULES[schedule](depth, max_groups)
        self.widths = _WIDTH_RULES[widths](input_dim, expand_dim, depth, max_groups)
        if mix == "residual":
            self.widths = [expand_dim // max_groups * max_groups] * len(self.widths)
        # The printed counts take Reduce for the last of the N maps, give it the link to the input
        # and keep a dense map of width k where it is left out; the text does none of this.
        linked = [mix in LINKED_MIXES] * (depth - 1)
        if widths == "printed":
            self.widths.append(output_dim if reduce else expand_dim)
        elif reduce:
            self.widths.append(output_dim)
            self.groups.append(1)
            linked.append(False)
        self.output_dim = self.widths[-1]
        _check_last_width(self.output_dim, self.groups[-1], reduce)
        self.mixers = [MIXES[mix if link else "none"] for link in linked]

        inputs = [input_dim]
        inputs += [w + input_dim * link for w, link in zip(self.widths, linked, strict=False)]
        biased = [False] * (len(inputs) - 1) + [reduce or widths == "printed"]
        self.maps = nn.ModuleList(map(GroupLinear, inputs, self.widths, self.groups, biased))
        make_norm = nn.LayerNorm if norm == "layer" else nn.Identity
        self.norms = nn.ModuleList(make_norm(width) for width in inputs[1:])
        self.dropout = nn.Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform for each matrix of each map, zero bias, unit gain in the norms."""
        for layer in [*self.maps, *self.norms]:
            if not isinstance(layer, nn.Identity):
                layer.reset_parameters()

    @property
    def is_standard_kind(self) -> bool:
        """Whether each map but the first sees the unit's input, normalised, in one way."""
        linked = all(mixer is not MIXES["none"] for mixer in self.mixers)
        normalised = isinstance(self.norms[0], nn.LayerNorm)
        return linked and normalised and not self.shuffle and self.maps[-1].bias is not None

    @cached_property
    def has_fused_form(self) -> bool:
        """Whether the fused kernels can stand for this unit; asked at every forward pass."""
        return has_fused_form(self)

    @property
    def mixed_groups(self) -> list[int]:
        """Groups in which each map but the first finds the input and the hidden vector mixed."""
        return self.groups[1:] if self.mix == "split" else [1] * (len(self.groups) - 1)

    def forward(self, inputs: Tensor) -> Tensor:
        if can_fuse(self, inputs):
            return fused_forward(self, inputs)
        # Not as a list: each output's memory is free again as soon as the next one is there.
        for result in self.layer_outputs(inputs):  # noqa: B007
            pass
        return result

    def layer_outputs(self, inputs: Tensor) -> Iterator[Tensor]:
        """What each map gives, the last one's being the unit's result: (..., widths[index])."""
        hidden = self._add_residual(self.maps[0](inputs), inputs)
        yield hidden
        later = zip(self.maps[1:], self.norms, self.mixers, strict=True)
        for index, (linear, norm, mixer) in enumerate(later, start=1):
            if self.shuffle:
                hidden = shuffle_groups(hidden, self.groups[index - 1])
            mixed = norm(mixer(inputs, hidden, self.groups[index]))
            hidden = self._add_residual(linear(self.dropout(self._activate(mixed))), hidden)
            yield hidden

    def _activate(self, features: Tensor) -> Tensor:
        function = ACTIVATIONS[self.activation]
        return features if function is None else function(features)

    def _add_residual(self, outputs: Tensor, hidden: Tensor) -> Tensor:
        if self.mix == "residual" and outputs.shape == hidden.shape:
            return outputs + hidden
        return outputs

    def extra_repr(self) -> str:
        return (
            f"input_dim={self.input_dim}, output_dim={self.output_dim}, "
            f"expand_dim={self.expand_dim}, depth={self.depth}, max_groups={self.max_groups}, "
            f"schedule={self.schedule}, mix={self.mix}, activation={self.activation}, "
            f"reduce={self.reduce}, shuffle={self.shuffle}"
        )


def printed_widths(input_dim: int, expand_dim: int, depth: int, max_groups: int) -> list[int]:
    """Output widths of the N - 1 group maps: from n towards k without reaching it.

    Evenly spaced, rounded down to multiples of `max_groups`.
    """
    step = partial(_width_between, input_dim, expand_dim, depth - 1, max_groups)
    return [step(index) for index in range(depth - 1)]


def literal_widths(input_dim: int, expand_dim: int, depth: int, max_groups: int) -> list[int]:
    """Output widths of N group maps that start one step above n and reach k (section 3.2).

    Evenly spaced, rounded down to multiples of `max_groups`.
    """
    step = partial(_width_between, input_dim, expand_dim, depth, max_groups)
    return [step(index) for index in range(1, depth + 1)]


def _width_between(input_dim: int, expand_dim: int, steps: int, multiple: int, index: int) -> int:
    width = input_dim * steps + (expand_dim - input_dim) * index
    return width // (steps * multiple) * multiple


_WIDTH_RULES = {"printed": printed_widths, "literal": literal_widths}


def _check_sizes(
    input_dim: int, output_dim: int, expand_dim: int, depth: int, max_groups: int, schedule: str
) -> None:
    require_between("input_dim", input_dim, 1)
    require_between("output_dim", output_dim, 1)
    require_between("depth", depth, 2, MAX_DEPTH)
    require_between("max_groups", max_groups, 1)
    check_schedule(schedule, max_groups)
    require_multiple("input_dim", input_dim, max_groups, "the largest number of groups")
    require_between("expand_dim", expand_dim, input_dim)


def _check_last_width(width: int, groups: int, reduce: bool) -> None:
    """With a constant schedule the last map is grouped too, so its width must fit."""
    argument = "output_dim" if reduce else "expand_dim"
    require_multiple(argument, width, groups, "the groups of the last map")

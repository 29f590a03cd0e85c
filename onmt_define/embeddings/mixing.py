"""How a map of a DeFINE unit sees the unit's input beside the previous map's output."""

from collections.abc import Callable

import torch
from torch import Tensor


def split_and_mix(inputs: Tensor, hidden: Tensor, groups: int) -> Tensor:
    """Give each group of the coming map its share of the unit's input (section 3.3, 'mixed').

    Both tensors are cut into `groups` consecutive chunks; chunk j of `inputs` goes in front of
    chunk j of `hidden`. Shapes: (..., n) and (..., h) to (..., n + h).
    """
    if groups == 1:
        return concatenate(inputs, hidden, groups)
    chunks = [tensor.unflatten(-1, (groups, -1)) for tensor in (inputs, hidden)]
    return torch.cat(chunks, dim=-1).flatten(-2)


def concatenate(inputs: Tensor, hidden: Tensor, groups: int) -> Tensor:
    """Put the whole input in front of the hidden vector (Table 6b, 'without mixer').

    Shapes: (..., n) and (..., h) to (..., n + h).
    """
    return torch.cat([inputs, hidden], dim=-1)


def hidden_alone(inputs: Tensor, hidden: Tensor, groups: int) -> Tensor:
    """No link to the input: the hierarchical group transform as drawn in Figure 2c."""
    return hidden


# Both 'none' and 'residual' are without link; with 'residual' the unit adds a map's own input.
MIXES: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "split": split_and_mix,
    "concat": concatenate,
    "none": hidden_alone,
    "residual": hidden_alone,
}
LINKED_MIXES = ("split", "concat")


def shuffle_groups(hidden: Tensor, groups: int) -> Tensor:
    """Interleave the groups' outputs, so that the next map's groups each see all of them.

    The permutation of 'GLT + Shuffle' (Table 6a): feature i of group j moves to place
    i * groups + j. Shapes: (..., width) to (..., width).
    """
    return hidden.unflatten(-1, (groups, -1)).transpose(-1, -2).flatten(-2)

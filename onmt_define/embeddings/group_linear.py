"""Group linear transformation: one small matrix for each group of features."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.embeddings.dimensions import require_between, require_multiple


class GroupLinear(nn.Module):
    """Split the features into `groups` consecutive chunks and map each with its own matrix.

    The function F_G of section 3.1 of the paper, in the reading that its printed parameter counts
    force: a separate matrix for each group, in all in_features * out_features / groups weights.

    Shapes: input (..., in_features), output (..., out_features).

    Raises:
        DimensionError: if a width isn't a multiple of `groups`.
    """

    def __init__(
        self, in_features: int, out_features: int, groups: int = 1, bias: bool = False
    ) -> None:
        super().__init__()
        require_between("groups", groups, 1)
        require_multiple("in_features", in_features, groups, "groups")
        require_multiple("out_features", out_features, groups, "groups")
        self.in_features, self.out_features, self.groups = in_features, out_features, groups
        # Not called `weight`: OpenNMT-py's initialisation takes a 3-D `weight` for a convolution.
        self.kernel = nn.Parameter(
            torch.empty(groups, in_features // groups, out_features // groups)
        )
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform for each matrix (fans in/groups and out/groups), zero bias."""
        _, fan_in, fan_out = self.kernel.shape
        bound = math.sqrt(6.0 / (fan_in + fan_out))
        nn.init.uniform_(self.kernel, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> Tensor:
        if self.groups == 1:
            return functional.linear(features, self.kernel[0].T, self.bias)
        if features.device.type == "cpu":
            # One product after the other keeps all cores busy and needs no transposed copies.
            chunks = zip(features.chunk(self.groups, -1), self.kernel.unbind(), strict=True)
            mapped = torch.cat([chunk @ matrix for chunk, matrix in chunks], -1)
        else:
            rows = features.reshape(-1, self.groups, self.in_features // self.groups)
            mapped = torch.bmm(rows.transpose(0, 1), self.kernel).transpose(0, 1)
            mapped = mapped.reshape(*features.shape[:-1], self.out_features)
        return mapped if self.bias is None else mapped + self.bias

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"groups={self.groups}, bias={self.bias is not None}"
        )

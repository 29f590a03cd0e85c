"""Linear maps of any width at the speed of a round one, on a GPU.

A GPU's matrix product reads rows that don't begin at multiples of 16 bytes with kernels of older
cards. Widths such as 410, 1150 or 20,003 are filled up with zeros, which change no result.
"""

import torch
from torch import Tensor
from torch.nn import functional

# Numbers; 32 bytes of 16-bit numbers, for which Triton reads several at once too.
ALIGNMENT = 16


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`functional.linear`, on a GPU with aligned widths; shapes (..., in) to (..., out)."""
    if not likes_alignment(inputs):
        return functional.linear(inputs, weight, bias)
    return aligned_linear(inputs, weight, bias)[..., : weight.shape[0]]


def aligned_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same with zeros behind the results, up to a multiple of the alignment."""
    missing_out, missing_in = (-size % ALIGNMENT for size in weight.shape)
    if torch.is_autocast_enabled(inputs.device.type):
        # Before the zeros come in, so that those are moved in 16 bits.
        dtype = torch.get_autocast_dtype(inputs.device.type)
        inputs, weight = inputs.to(dtype), weight.to(dtype)
    weight = fill_up(weight, 0, missing_in, 0, missing_out)
    if bias is not None:
        bias = fill_up(bias, 0, missing_out)
    return functional.linear(fill_up(inputs, 0, missing_in), weight, bias)


def likes_alignment(inputs: Tensor) -> bool:
    """Whether products of these inputs are those of tensor cores: 16 bits or TF32 on a GPU."""
    if not inputs.is_cuda:
        return False
    # What torch.set_float32_matmul_precision has set; torch.compile can't ask it directly.
    return torch.is_autocast_enabled("cuda") or torch.backends.cuda.matmul.allow_tf32


def fill_up(tensor: Tensor, *sizes: int) -> Tensor:
    """`functional.pad` that copies nothing where there is nothing to add."""
    return functional.pad(tensor, sizes) if any(sizes) else tensor

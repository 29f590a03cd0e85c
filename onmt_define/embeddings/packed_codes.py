"""Whole numbers of a few bits each, packed without gaps into the bytes of their row."""

import torch
from torch import Tensor

# A code touches three bytes at most: seven bits before it and its own.
MAX_BITS = 16


def bits_per_code(codes: int) -> int:
    """Bits that tell `codes` numbers apart: 4 for 16 of them."""
    return (codes - 1).bit_length()


def bytes_per_row(count: int, bits: int) -> int:
    """Bytes that `count` numbers take; a row of its own begins with a new byte."""
    return (count * bits + 7) // 8


def pack(numbers: Tensor, bits: int) -> Tensor:
    """Pack whole numbers below 2**bits: (rows, count) to bytes (rows, bytes_per_row).

    Number i takes the bits from i * bits on, the lowest first, counted from the lowest bit of the
    row's first byte.
    """
    rows, count = numbers.shape
    places = torch.arange(bits, dtype=torch.int32, device=numbers.device)
    single = (numbers.int().unsqueeze(-1) >> places & 1).to(torch.uint8).flatten(1)
    packed = single.new_zeros(rows, bytes_per_row(count, bits) * 8)
    packed[:, : count * bits] = single
    values = 1 << torch.arange(8, dtype=torch.uint8, device=numbers.device)
    return (packed.unflatten(1, (-1, 8)) * values).sum(-1, dtype=torch.uint8)


def unpack(packed: Tensor, count: int, bits: int) -> Tensor:
    """The numbers that `pack` packed: bytes (..., bytes_per_row) to int64 (..., count)."""
    starts = torch.arange(count, device=packed.device) * bits
    first, shift = starts // 8, starts % 8
    touched = 1 if 8 % bits == 0 else (bits + 14) // 8
    numbers = packed[..., first].long()
    for further in range(1, touched):
        # Where there is no further byte, none of its bits are read.
        places = (first + further).clamp(max=packed.shape[-1] - 1)
        numbers |= packed[..., places].long() << 8 * further
    return numbers >> shift & (1 << bits) - 1

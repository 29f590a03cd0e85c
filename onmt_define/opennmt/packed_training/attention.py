"""Attention among the sentences of a packed batch: each attends to itself, or to its source.

On a GPU in bfloat16 the flash kernel of torch takes sentences of any lengths as they lie, one
after the other. Elsewhere they are laid into rows, several in one, and back again.
"""

import math
from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from onmt_define.opennmt.packed_training.batches import Side

OLDEST_FLASH_CAPABILITY = (8, 0)


def flash_runs_on(device: torch.device) -> bool:
    """Whether torch's flash kernel for sequences of varying length runs there."""
    return (
        device.type == "cuda"
        and torch.cuda.get_device_capability(device) >= OLDEST_FLASH_CAPABILITY
        and torch.backends.cuda.is_flash_attention_available()
    )


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Side,
    keys: Side,
    *,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Softmax attention within each sequence, bfloat16 or float16 on a GPU.

    Shapes: (tokens, heads, width) in and out.

    Args:
        query: of the tokens of `queries`.
        key: of the tokens of `keys`, like `value`.
        queries: which tokens belong together; sequence i attends to sequence i of `keys`.
        keys: see `queries`.
        causal: no token attends to a later one.
        dropout: share of the weights that are dropped.
    """
    # torch's public name for this kernel, varlen_attn, has no dropout.
    return torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        queries.offsets,
        keys.offsets,
        queries.longest,
        keys.longest,
        dropout,
        causal,
        False,
        scale=1 / math.sqrt(query.shape[-1]),
    )[0]


class PaddedAttention:
    """The same in any type, on any device, for all layers of a model that read one batch.

    Sentences are laid into rows as long as the longest sentence, long and short ones together so
    that little is left empty; a mask keeps the sentences of a row apart. Where each token goes is
    found out once.

    Args:
        source: side of the batch that the encoder reads.
        target: side that the decoder reads.
        heads: of the attention.
    """

    def __init__(self, source: Side, target: Side, heads: int) -> None:
        rows = fill_rows(*(side.offsets.diff().tolist() for side in (source, target)))
        self._layouts = {id(side): _Layout(side, rows, heads) for side in (source, target)}
        self._masks: dict[tuple[int, int, bool], Tensor] = {}

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        queries: Side,
        keys: Side,
        *,
        causal: bool,
        dropout: float,
    ) -> Tensor:
        of_query, of_key = self._layouts[id(queries)], self._layouts[id(keys)]
        which = id(queries), id(keys), causal
        if which not in self._masks:
            self._masks[which] = _mask(of_query.sequences, of_key.sequences, causal)
        padded = of_query.pad(query), of_key.pad(key), of_key.pad(value)
        return of_query.pack(_attend(*padded, self._masks[which], dropout))


def fill_rows(*lengths: list[int]) -> list[list[int]]:
    """Numbers of the sequences in each row: the longest one left, then the shortest that fit.

    Args:
        lengths: of the sequences of each side; on no side a row is longer than its longest one.
    """
    room = [max(of_side) for of_side in lengths]
    left = deque(sorted(range(len(lengths[0])), key=lambda i: lengths[-1][i], reverse=True))
    rows = []
    while left:
        row = [left.popleft()]
        used = [of_side[row[0]] for of_side in lengths]
        while left:
            with_next = [n + of_side[left[-1]] for n, of_side in zip(used, lengths, strict=True)]
            if any(n > most for n, most in zip(with_next, room, strict=True)):
                break
            row.append(left.pop())
            used = with_next
        rows.append(row)
    return rows


class _Layout:
    """Where the tokens of a side lie in the rows.

    `sequences` is (rows, longest): which sequence a place belongs to, -1 if it is empty.
    """

    def __init__(self, side: Side, rows: list[list[int]], heads: int) -> None:
        offsets, device = side.offsets.tolist(), side.tokens.device
        longest = max(end - start for start, end in pairwise(offsets))
        sequences = np.full((len(rows), longest), -1)
        tokens = np.full((len(rows), longest), offsets[-1])
        for row, numbers in enumerate(rows):
            end = 0
            for number in numbers:
                start, end = end, end + offsets[number + 1] - offsets[number]
                sequences[row, start:end] = number
                tokens[row, start:end] = range(offsets[number], offsets[number + 1])
        self.sequences = torch.from_numpy(sequences).to(device)
        self._shape = len(rows), heads, longest
        # Of each head on its own: as matrix products want it.
        of_padded = (tokens[:, None] * heads + np.arange(heads)[:, None]).flatten()
        number_of_rows = offsets[-1] * heads
        of_packed = of_padded.argsort()[:number_of_rows]
        self._of_padded = torch.from_numpy(of_padded.clip(max=number_of_rows)).to(device)
        self._any_for_empty = self._of_padded.clamp(max=number_of_rows - 1)
        self._of_packed = torch.from_numpy(of_packed).to(device)

    def pad(self, packed: Tensor) -> Tensor:
        """(tokens, heads, width) to (rows, heads, longest, width)."""
        padded = _Pad.apply(packed.flatten(0, 1), self._any_for_empty, self._of_packed)
        return padded.view(*self._shape, -1)

    def pack(self, padded: Tensor) -> Tensor:
        """The way back."""
        packed = _Pack.apply(padded.flatten(0, 2), self._of_padded, self._of_packed)
        return packed.view(-1, self._shape[1], padded.shape[-1])


class _Pad(torch.autograd.Function):
    """Rows laid out; what lies in the padding is never looked at.

    Each row lies in one place, so that gradients needn't be added up, as PyTorch would.
    """

    @staticmethod
    def forward(context: Any, rows: Tensor, of_padded: Tensor, of_packed: Tensor) -> Tensor:
        context.save_for_backward(of_packed)
        return rows.index_select(0, of_padded)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.index_select(0, *context.saved_tensors), None, None


class _Pack(torch.autograd.Function):
    """The way back; the gradient of padding is zero."""

    @staticmethod
    def forward(context: Any, rows: Tensor, of_padded: Tensor, of_packed: Tensor) -> Tensor:
        context.save_for_backward(of_padded)
        return rows.index_select(0, of_packed)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with_zeros = torch.cat([gradient, gradient.new_zeros(1, gradient.shape[1])])
        return with_zeros.index_select(0, *context.saved_tensors), None, None


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float) -> Tensor:
    if query.device.type != "cpu":
        return functional.scaled_dot_product_attention(query, key, value, mask, dropout)
    # On a CPU torch's own function takes several times as long for rows as short as sentences.
    scores = (query / math.sqrt(query.shape[-1])) @ key.mT + mask
    return functional.dropout(scores.softmax(-1), dropout) @ value


def _mask(of_queries: Tensor, of_keys: Tensor, causal: bool) -> Tensor:
    """Added to the scores: leaves no weight to tokens of other sequences, or that come later.

    Finite, since an empty place has nothing to attend to.
    """
    hidden = of_queries[:, :, None] != of_keys[:, None]
    if causal:
        place = torch.arange(of_keys.shape[1], device=of_keys.device)
        hidden = hidden | (place > place[:, None])
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, -1e30)[:, None]

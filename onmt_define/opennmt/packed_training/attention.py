"""Attention among the sentences of a packed batch: each attends to itself, or to its source.

On a GPU in bfloat16 the flash kernel of torch takes sentences of any lengths as they lie, one
after the other. Elsewhere they are laid side by side with padding, and back again.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from onmt_define.opennmt.packed_training.batches import Side

OLDEST_FLASH_CAPABILITY = (8, 0)
GROUPS = 6
"""Groups of sentences that are padded to their own longest one."""


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


def padded_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Side,
    keys: Side,
    *,
    causal: bool,
    dropout: float,
) -> Tensor:
    """The same in any type, on any device."""
    of_query, of_key = queries.offsets.tolist(), keys.offsets.tolist()
    # In groups, so that short sentences aren't padded to the length of the longest.
    size = max(1, -(-(len(of_query) - 1) // GROUPS))
    outputs = []
    for first in range(0, len(of_query) - 1, size):
        group = slice(first, min(first + size, len(of_query) - 1) + 1)
        bounds, key_bounds = of_query[group], of_key[group]
        rows, key_rows = slice(bounds[0], bounds[-1]), slice(key_bounds[0], key_bounds[-1])
        outputs.append(
            _attention_in_group(
                query[rows],
                key[key_rows],
                value[key_rows],
                queries.positions[rows],
                keys.positions[key_rows],
                queries.offsets[group].diff(),
                keys.offsets[group].diff(),
                causal,
                dropout,
            )
        )
    return torch.cat(outputs)


def _attention_in_group(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    query_lengths: Tensor,
    key_lengths: Tensor,
    causal: bool,
    dropout: float,
) -> Tensor:
    query_at = _sequence_of_each(query_lengths), query_positions
    key_at = _sequence_of_each(key_lengths), key_positions
    shape = (len(query_lengths), int(query_lengths.max()), int(key_lengths.max()))

    def lay_out(packed: Tensor, places: tuple[Tensor, Tensor], longest: int) -> Tensor:
        padded = packed.new_zeros(shape[0], longest, *packed.shape[1:])
        return padded.index_put(places, packed).transpose(1, 2)

    key_number = torch.arange(shape[2], device=key.device)
    allowed = (key_number < key_lengths[:, None])[:, None, None, :]
    if causal:
        allowed = allowed & (key_number <= key_number[:, None])
    # A query without keys would be 0/0; its sequence has no tokens.
    allowed = allowed | (key_lengths == 0)[:, None, None, None]
    output = functional.scaled_dot_product_attention(
        lay_out(query, query_at, shape[1]),
        lay_out(key, key_at, shape[2]),
        lay_out(value, key_at, shape[2]),
        attn_mask=allowed,
        dropout_p=dropout,
    )
    return output.transpose(1, 2)[query_at]


def _sequence_of_each(lengths: Tensor) -> Tensor:
    """Number of the sequence that each token belongs to."""
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)

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
    of_query, of_key = queries.offsets.diff(), keys.offsets.diff()
    query_at, key_at = _places(queries, of_query), _places(keys, of_key)

    def lay_out(packed: Tensor, places: tuple[Tensor, Tensor], lengths: Tensor) -> Tensor:
        shape = (len(lengths), int(lengths.max()), *packed.shape[1:])
        return packed.new_zeros(shape).index_put(places, packed).transpose(1, 2)

    key_number = torch.arange(int(of_key.max()), device=key.device)
    allowed = (key_number < of_key[:, None])[:, None, None, :]
    if causal:
        allowed = allowed & (key_number <= key_number[:, None])
    # A query without keys would be 0/0; its sequence has no tokens.
    allowed = allowed | (of_key == 0)[:, None, None, None]
    output = functional.scaled_dot_product_attention(
        lay_out(query, query_at, of_query),
        lay_out(key, key_at, of_key),
        lay_out(value, key_at, of_key),
        attn_mask=allowed,
        dropout_p=dropout,
    )
    return output.transpose(1, 2)[query_at]


def _places(side: Side, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Sequence and place in it of each token."""
    sequence = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    return sequence, side.positions

"""Sets the size that the input vectors have at the start of a training: `embedding_init_rms`.

Added positions have a root mean square of 0.71. Beside them OpenNMT-py's own initialisation leaves
a table of 10,000 words at 0.30, which is learned from more slowly than a larger one
(docs/results/translation.md).
"""

import math
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MEASURED_TOKENS = 4096


def set_initial_size(lookups: Iterable[Any], opt: Namespace) -> None:
    """Multiply each side's last weights so that its vectors have the size that was asked for.

    Args:
        lookups: the word tables of encoder and decoder, or the embeddings in their place.
        opt: `embedding_init_rms` is the root mean square of the numbers of all tokens' vectors
            after the factor √width that comes with `position_encoding`; None changes nothing.
    """
    wanted = getattr(opt, "embedding_init_rms", None)
    if wanted is None:
        return
    # Both sides may share their weights, which must be multiplied once.
    distinct = {id(output_weight(lookup)): lookup for lookup in lookups}
    for lookup in distinct.values():
        factor = math.sqrt(lookup.embedding_dim) if opt.position_encoding else 1.0
        with torch.no_grad():
            output_weight(lookup).mul_(wanted / (_root_mean_square(lookup) * factor))


def output_weight(lookup: Any) -> Tensor | None:
    """What the vectors are proportional to, if the embedding type says it."""
    name = "weight" if isinstance(lookup, nn.Embedding) else "output_weight"
    return getattr(lookup, name, None)


def _root_mean_square(lookup: Any) -> float:
    """Of the vectors of up to MEASURED_TOKENS tokens, spread over the vocabulary."""
    step = max(1, lookup.num_embeddings // MEASURED_TOKENS)
    device = next(lookup.parameters()).device
    tokens = torch.arange(0, lookup.num_embeddings, step, device=device)
    was_training = lookup.training
    lookup.eval()
    with torch.no_grad():
        vectors = lookup(tokens[tokens != lookup.padding_idx])
    lookup.train(was_training)
    return vectors.float().square().mean().sqrt().item()

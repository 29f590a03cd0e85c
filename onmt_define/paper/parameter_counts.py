"""Parameter counts as arithmetic: layers, context models, input and output layers.

Nothing here knows a printed number. The context models and the layers between tokens and vectors
are formulas; the DeFINE unit is built, without memory for its weights, and counted. Where the
paper doesn't describe a layer, the form that its counts force is taken and said so.

    V  vocabulary_size   number of token types
    n  dim               width of the token table, e_i
"""

from collections.abc import Mapping, Sequence
from typing import Any


def define_unit(arguments: Mapping[str, Any]) -> int:
    """Parameters of `DefineUnit(**arguments)`."""
    import torch  # slow to import, and the command's --help doesn't need it

    from onmt_define.embeddings import DefineUnit

    with torch.device("meta"):
        unit = DefineUnit(**arguments)
    return sum(parameter.numel() for parameter in unit.parameters())


# Context models


def lstm_layer(input_dim: int, hidden_size: int) -> int:
    """Four gates, each a matrix on input and state and two bias vectors, as in torch.nn.LSTM."""
    return 4 * hidden_size * (input_dim + hidden_size + 2)


def lstm(input_dim: int, hidden_size: int, output_dim: int, layers: int) -> int:
    """A stack of at least two layers whose last is `output_dim` wide, the others `hidden_size`."""
    first = lstm_layer(input_dim, hidden_size)
    between = (layers - 2) * lstm_layer(hidden_size, hidden_size)
    return first + between + lstm_layer(hidden_size, output_dim)


def transformer_xl(model_dim: int, inner_dim: int, heads: int, head_dim: int, layers: int) -> int:
    """Transformer-XL's layers and the two attention biases that they share.

    Attention has queries, keys, values, relative positions and an output matrix, all without bias.
    """
    attention_dim = heads * head_dim
    attention = 5 * model_dim * attention_dim + layer_norm(model_dim)
    return layers * (attention + feed_forward(model_dim, inner_dim)) + 2 * attention_dim


def transformer_encoder(model_dim: int, inner_dim: int, layers: int) -> int:
    """OpenNMT-py's pre-norm encoder with its final norm, without embeddings."""
    layer = transformer_attention(model_dim) + feed_forward(model_dim, inner_dim)
    return layers * layer + layer_norm(model_dim)


def transformer_decoder(model_dim: int, inner_dim: int, layers: int) -> int:
    """OpenNMT-py's pre-norm decoder with its final norm, without embeddings and classifier."""
    layer = 2 * transformer_attention(model_dim) + feed_forward(model_dim, inner_dim)
    return layers * layer + layer_norm(model_dim)


def transformer_attention(model_dim: int) -> int:
    """Queries, keys, values and output, all with bias, and the norm."""
    return 4 * (model_dim * model_dim + model_dim) + layer_norm(model_dim)


def feed_forward(model_dim: int, inner_dim: int) -> int:
    """Two linear maps with bias and the norm."""
    return 2 * model_dim * inner_dim + inner_dim + model_dim + layer_norm(model_dim)


def layer_norm(dim: int) -> int:
    """Gain and shift."""
    return 2 * dim


# Input and output layers


def token_table(vocabulary_size: int, dim: int) -> int:
    """A vector for each token type."""
    return vocabulary_size * dim


def softmax(vocabulary_size: int, dim: int) -> int:
    """A vector and a bias for each token type."""
    return token_table(vocabulary_size, dim) + vocabulary_size


def tied_adaptive_layers(
    vocabulary_size: int, dim: int, cutoffs: Sequence[int], factor: int
) -> int:
    """Adaptive input and adaptive softmax that share their tables and projections.

    Band i has vectors of width dim / factor^i. Each band but the first has one matrix between this
    width and `dim`, used in both directions, and one `dim`-wide vector by which the first band's
    softmax chooses it. No biases. The paper's counts rule out the usual variants: a projection of
    the first band, untied projections, biases.
    """
    ends = [*cutoffs, vocabulary_size]
    total = 0
    for band, (start, end) in enumerate(zip([0, *cutoffs], ends, strict=True)):
        width = dim // factor**band
        total += token_table(end - start, width)
        if band:
            total += width * dim + dim
    return total


def tied_projective_layers(
    vocabulary_size: int, dim: int, model_dim: int, cutoffs: Sequence[int]
) -> int:
    """Transformer-XL's table, projected to `model_dim`, tied to an adaptive softmax of its width.

    The softmax has a bias for each token type, and a vector and a bias for each band but the
    first. Where the table is narrower than the model, each band has one matrix between the two;
    the input's own projection is one of them, or the paper doesn't count it.
    """
    rare_bands = len(cutoffs)
    projections = (rare_bands + 1) * dim * model_dim if dim != model_dim else 0
    return softmax(vocabulary_size + rare_bands, dim) + projections

"""The two ends of a language model: the input layer and the classifier tied to its token table."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.embeddings import DefineEmbedding, DimensionError
from onmt_define.errors import UserError

InputLayer = nn.Embedding | DefineEmbedding


def build_input_layer(settings: dict[str, Any], vocabulary_size: int) -> InputLayer:
    """Build the input layer that the `embedding` part of a run's settings describes.

    `standard` is one table of width `dim` (m); `define` is a table of width `map_dim` (n) under a
    DeFINE unit that ends at width `dim`.

    Raises:
        UserError: sizes from which no unit can be built.
    """
    if settings["type"] == "standard":
        layer = nn.Embedding(vocabulary_size, settings["dim"])
        nn.init.normal_(layer.weight, std=settings["dim"] ** -0.5)
        return layer
    try:
        return DefineEmbedding(
            vocabulary_size,
            settings["dim"],
            settings["map_dim"],
            settings["expand_dim"],
            settings["depth"],
            settings["max_groups"],
        )
    except DimensionError as error:
        key = {"embedding_dim": "dim"}.get(error.argument, error.argument)
        raise UserError(f"embedding.{key} is {error.value}, expected {error.expected}") from None


def check_input_layer(settings: dict[str, Any], where: str) -> None:
    """Raise `UserError`, beginning with `where`, for sizes from which no layer can be built."""
    try:
        with torch.device("meta"):
            build_input_layer(settings, 2)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def token_table(layer: InputLayer) -> nn.Embedding:
    """The table that the classifier is tied to, m wide if standard and n wide if not."""
    return layer if isinstance(layer, nn.Embedding) else layer.map_table


def describe_input_layer(layer: InputLayer) -> dict[str, Any]:
    """The `embedding` entry of a run's record."""
    if isinstance(layer, nn.Embedding):
        return {"type": "standard", "output_dim": layer.embedding_dim}
    return {
        "type": "define",
        "map_dim": layer.unit.input_dim,
        "expand_dim": layer.unit.expand_dim,
        "output_dim": layer.unit.output_dim,
        "depth": layer.unit.depth,
        "groups": list(layer.unit.groups),
    }


class TiedSoftmax(nn.Module):
    """Softmax over the vocabulary whose weight is the input layer's token table itself.

    Its only parameters of its own are the biases, one a token.
    """

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.linear = nn.Linear(table.embedding_dim, table.num_embeddings)
        self.linear.weight = table.weight
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood in nats of each target: (..., width), (...) to (...)."""
        logits = self.linear(hidden)
        return functional.cross_entropy(
            logits.flatten(0, -2), targets.flatten(), reduction="none"
        ).view_as(targets)

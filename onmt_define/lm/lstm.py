"""The LSTM language model of the paper's WikiText-103 table (section 4.1)."""

from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from onmt_define.errors import UserError
from onmt_define.lm.embeddings import InputLayer, TiedSoftmax, build_input_layer, token_table

State = list[tuple[Tensor, Tensor]]


class LstmContext(nn.Module):
    """A stack of LSTM layers: input_dim -> hidden_size -> ... -> hidden_size -> output_dim.

    The last layer is as wide as the classifier's token table, so nothing projects in between.
    Dropout acts on the embeddings, between the layers and on the output.

    Shapes: (time, batch, input_dim) to (time, batch, output_dim).
    """

    def __init__(
        self, input_dim: int, hidden_size: int, output_dim: int, layers: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        widths = [input_dim, *[hidden_size] * (layers - 1), output_dim]
        self.layers = nn.ModuleList(nn.LSTM(*sizes) for sizes in pairwise(widths))
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Read on from `state`, one (h, c) pair a layer; None is the state before any token."""
        hidden = self.dropout(inputs)
        new_state = []
        for layer, layer_state in zip(self.layers, state or [None] * len(self.layers), strict=True):
            hidden, layer_state = layer(hidden, layer_state)
            hidden = self.dropout(hidden)
            new_state.append(layer_state)
        return hidden, new_state


class LanguageModel(nn.Module):
    """Input layer, context model, classifier."""

    def __init__(
        self, input_layer: InputLayer, context: nn.Module, output_layer: nn.Module
    ) -> None:
        super().__init__()
        self.input_layer = input_layer
        self.context = context
        self.output_layer = output_layer

    def forward(
        self, tokens: Tensor, targets: Tensor, state: State | None = None
    ) -> tuple[Tensor, State]:
        """Losses in nats of `targets`, each the token after the one at its place in `tokens`.

        Shapes: two int64 tensors (time, batch) to losses (time, batch) and the new state.
        """
        hidden, state = self.context(self.input_layer(tokens), state)
        return self.output_layer(hidden, targets), state


def build_model(settings: dict[str, Any], vocabulary_size: int) -> LanguageModel:
    """Build the model that a run's settings describe.

    Raises:
        UserError: sizes that don't fit together.
    """
    input_layer = build_input_layer(settings["embedding"], vocabulary_size)
    table = token_table(input_layer)
    if settings["layers"] == 1 and settings["hidden_size"] != table.embedding_dim:
        raise UserError(
            f"hidden_size is {settings['hidden_size']}, expected {table.embedding_dim}, since with "
            "layers: 1 the only layer is the last one, which is as wide as the token table"
        )
    context = LstmContext(
        settings["embedding"]["dim"],
        settings["hidden_size"],
        table.embedding_dim,
        settings["layers"],
        settings["dropout"],
    )
    return LanguageModel(input_layer, context, TiedSoftmax(table))


def count_parameters(model: LanguageModel) -> dict[str, int]:
    """Parameters of each part, a shared one counted where it first appears, and their total."""
    seen: set[int] = set()
    counts = {}
    parts = {
        "embedding": model.input_layer,
        "context": model.context,
        "output": model.output_layer,
    }
    for name, part in parts.items():
        own = [parameter for parameter in part.parameters() if id(parameter) not in seen]
        seen.update(map(id, own))
        counts[name] = sum(parameter.numel() for parameter in own)
    return {**counts, "total": sum(counts.values())}

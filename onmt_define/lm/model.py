"""A language model: input layer, context model, classifier, as a run's settings describe them."""

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from onmt_define.embeddings import DimensionError
from onmt_define.errors import UserError
from onmt_define.lm.awd_lstm import AwdLstmContext
from onmt_define.lm.classifiers import AdaptiveSoftmax, Softmax
from onmt_define.lm.dropouts import WordDropout
from onmt_define.lm.input_layers import InputLayer, build_input_layer, projections_of, tables_of
from onmt_define.lm.lstm import LstmContext
from onmt_define.lm.transformer_xl import TransformerXlContext


class Reading(NamedTuple):
    """What a language model makes of a piece of text.

    Attributes:
        losses: nats of each target, (time, batch).
        state: what to read on from.
        penalty: to be added to the mean loss in training; 0 for most models.
        hidden: what the classifier saw, (time, batch, width).
    """

    losses: Tensor
    state: Any
    penalty: Tensor | float
    hidden: Tensor


class LanguageModel(nn.Module):
    """Input layer, context model, classifier."""

    def __init__(
        self,
        input_layer: InputLayer,
        context: LstmContext | TransformerXlContext,
        output_layer: Softmax | AdaptiveSoftmax,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_layer = input_layer
        self.word_dropout = WordDropout(word_dropout, input_layer.num_embeddings)
        self.context = context
        self.output_layer = output_layer

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor,
        state: Any = None,
        band_sizes: list[int] | None = None,
    ) -> Reading:
        """Losses of `targets`, each the token after the one at its place in `tokens`.

        Args:
            tokens, targets: int64 (time, batch).
            state: `Reading.state` of the text before; None is the state before any token.
            band_sizes: see `AdaptiveSoftmax`.
        """
        vectors = self.word_dropout(self.input_layer(tokens), tokens)
        hidden, state, penalty = self.context(vectors, state)
        return Reading(self.output_layer(hidden, targets, band_sizes), state, penalty, hidden)


def build_model(settings: dict[str, Any], vocabulary_size: int) -> LanguageModel:
    """Build the model that a run's settings describe (see `run.schema.yaml`).

    Raises:
        UserError: sizes that don't fit together.
    """
    input_layer = build_input_layer(settings, vocabulary_size)
    context = _CONTEXTS[settings["model"]](settings, input_layer.embedding_dim)
    classifier = build_classifier(settings, input_layer, output_dim(settings))
    if settings["model"] == "transformer-xl":
        _initialise_as_transformer_xl(input_layer, classifier)
    if settings["model"] == "awd-lstm":
        for table in tables_of(input_layer):
            nn.init.uniform_(table, -0.1, 0.1)
    return LanguageModel(input_layer, context, classifier, settings.get("embedding_dropout", 0.0))


def output_dim(settings: dict[str, Any]) -> int:
    """Width of what the classifier reads: the last LSTM layer's, or the Transformer-XL's."""
    return settings.get("model_dim") or settings["map"]["dim"]


def _build_lstm(settings: dict[str, Any], input_dim: int) -> LstmContext:
    dim = settings["map"]["dim"]
    if settings["layers"] == 1 and settings["hidden_size"] != dim:
        raise UserError(
            f"hidden_size is {settings['hidden_size']}, expected {dim}, since with layers: 1 the "
            "only layer is the last one, which is as wide as the token table"
        )
    sizes = input_dim, settings["hidden_size"], dim, settings["layers"], settings["dropout"]
    if settings["model"] == "lstm":
        return LstmContext(*sizes)
    return AwdLstmContext(
        *sizes,
        input_dropout=settings["input_dropout"],
        hidden_dropout=settings["hidden_dropout"],
        weight_dropout=settings["weight_dropout"],
        activation_penalty=settings["activation_penalty"],
        temporal_penalty=settings["temporal_penalty"],
    )


def _build_transformer_xl(settings: dict[str, Any], input_dim: int) -> TransformerXlContext:
    if input_dim != settings["model_dim"]:
        key = "unit.output_dim" if settings.get("unit") else "map.dim"
        raise UserError(
            f"{key} is {input_dim}, expected model_dim, {settings['model_dim']}, unless the map is "
            "projective"
        )
    # A unit's results have the size of the layers inside; a table's are drawn far smaller.
    scale = 1.0 if settings.get("unit") else settings["model_dim"] ** 0.5
    return TransformerXlContext(
        settings["model_dim"],
        settings["inner_dim"],
        settings["heads"],
        settings["head_dim"],
        settings["layers"],
        settings["memory"],
        settings["dropout"],
        attention_dropout=settings["attention_dropout"],
        longest_distance=settings["memory"] + settings["bptt"],
        scale=scale,
    )


_CONTEXTS = {
    "lstm": _build_lstm,
    "awd-lstm": _build_lstm,
    "transformer-xl": _build_transformer_xl,
}


def build_classifier(
    settings: dict[str, Any], layer: InputLayer, hidden_dim: int
) -> Softmax | AdaptiveSoftmax:
    """Build the classifier; tied, it shares the map's tables, and its projections that fit.

    Raises:
        UserError: a tied classifier whose tables can't be those of the map.
    """
    classifier, tables = settings["classifier"], tables_of(layer)
    adaptive, factor = classifier["type"] == "adaptive", classifier["factor"]
    bands = len(classifier["cutoffs"]) + 1 if adaptive else 1
    if len(tables) == 1 and adaptive and factor > 1:
        if classifier["tied"]:
            raise UserError(
                f"classifier.factor is {factor}, expected 1, since a tied classifier has the table "
                f"of the {settings['map']['type']} map for all its bands; or choose map.type "
                "adaptive"
            )
        tables = _narrowing_tables(tables[0], classifier)
    candidates: list[Tensor | None] = [None] * bands
    if classifier["tied"]:
        candidates = [*projections_of(layer), *candidates][:bands]
    else:
        tables = [_new(*table.shape) for table in tables]
    # Without projections of its own a single table serves all bands.
    widths = [table.shape[1] for table in tables] * (bands if len(tables) == 1 else 1)
    projections = [
        _projection(hidden_dim, width, candidate)
        for width, candidate in zip(widths, candidates, strict=True)
    ]
    if not adaptive:
        return Softmax(tables[0], projections[0], classifier["bias"])
    try:
        return AdaptiveSoftmax(tables, projections, classifier["cutoffs"], classifier["bias"])
    except DimensionError as error:
        raise UserError(f"classifier.{error}") from None


def _narrowing_tables(table: Tensor, classifier: dict[str, Any]) -> list[Tensor]:
    bounds = [0, *classifier["cutoffs"], table.shape[0]]
    return [
        table.new_empty(
            max(0, stop - start), max(1, table.shape[1] // classifier["factor"] ** band)
        )
        for band, (start, stop) in enumerate(pairwise(bounds))
    ]


def _projection(hidden_dim: int, width: int, candidate: Tensor | None) -> nn.Parameter | None:
    if width == hidden_dim:
        return None
    fits = candidate is not None and candidate.shape == (hidden_dim, width)
    return candidate if fits else _new(hidden_dim, width)


def _new(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(rows, columns).normal_(std=columns**-0.5))


def _initialise_as_transformer_xl(layer: InputLayer, classifier: Softmax | AdaptiveSoftmax) -> None:
    """N(0, 0.02) for tables and N(0, 0.01) for the matrices behind them, as in the original."""
    named = dict(classifier.named_parameters())
    tables = [named[name] for name in named if name.startswith(("table", "clusters"))]
    projections = [named[name] for name in named if name.startswith("projection")]
    for table in [*tables_of(layer), *tables]:
        nn.init.normal_(table, std=0.02)
    for projection in [*projections_of(layer), *projections]:
        if projection is not None:
            nn.init.normal_(projection, std=0.01)


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

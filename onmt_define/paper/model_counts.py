"""The parameters of a row's model from its settings, split as the paper's tables split them."""

from dataclasses import dataclass

from onmt_define.paper import parameter_counts
from onmt_define.paper.published import Settings


@dataclass(frozen=True)
class ModelCount:
    """Exact numbers of parameters."""

    define: int
    context: int
    input_output: int

    @property
    def total(self) -> int:
        return self.define + self.context + self.input_output


def count_model(settings: Settings, vocabulary_size: int) -> ModelCount:
    """Count the model of a row's settings (see `table.schema.yaml`) with V token types."""
    unit = settings.get("unit")
    return ModelCount(
        define=parameter_counts.define_unit(unit) * settings.get("units", 1) if unit else 0,
        context=_context(settings),
        input_output=_input_output(settings, vocabulary_size),
    )


def _context(settings: Settings) -> int:
    match settings["model"]:
        case "lstm" | "awd-lstm":
            return parameter_counts.lstm(
                _context_input_dim(settings),
                settings["hidden_size"],
                settings["map"]["dim"],  # the tied classifier reads the last layer directly
                settings["layers"],
            )
        case "transformer-xl":
            return parameter_counts.transformer_xl(
                settings["model_dim"],
                settings["inner_dim"],
                settings["heads"],
                settings["head_dim"],
                settings["layers"],
            )
        case "transformer":
            sizes = settings["model_dim"], settings["inner_dim"], settings["layers"]
            return parameter_counts.transformer_encoder(
                *sizes
            ) + parameter_counts.transformer_decoder(*sizes)
        case model:
            raise ValueError(f"no count for the model {model!r}")


def _context_input_dim(settings: Settings) -> int:
    unit = settings.get("unit")
    if not unit:
        return settings["map"]["dim"]
    return unit["output_dim"] if unit.get("reduce", True) else unit["expand_dim"]


def _input_output(settings: Settings, vocabulary_size: int) -> int:
    dim, classifier = settings["map"]["dim"], settings["classifier"]
    if settings["model"] == "transformer-xl":
        return parameter_counts.tied_projective_layers(
            vocabulary_size, dim, settings["model_dim"], classifier["cutoffs"]
        )
    if settings["model"] == "transformer":  # source and target table, and an untied classifier
        return 2 * parameter_counts.token_table(vocabulary_size, dim) + parameter_counts.softmax(
            vocabulary_size, settings["model_dim"]
        )
    if classifier["type"] == "adaptive":
        return parameter_counts.tied_adaptive_layers(
            vocabulary_size, dim, classifier["cutoffs"], classifier["factor"]
        )
    return parameter_counts.softmax(vocabulary_size, dim)

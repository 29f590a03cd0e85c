"""A trained model's file, of OpenNMT-py or of `onmt_define lm train`, and its input layers."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from onmt_define.embeddings import (
    AdaptiveEmbedding,
    CompressedEmbedding,
    DefineEmbedding,
    ProjectiveEmbedding,
)
from onmt_define.embeddings.input_layer import InputLayer
from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files

COMPRESSED = checkpoint_files.COMPRESSED
TYPES = {
    nn.Embedding: checkpoint_files.STANDARD,
    ProjectiveEmbedding: "projective",
    AdaptiveEmbedding: "adaptive",
    DefineEmbedding: "define",
    CompressedEmbedding: COMPRESSED,
}
NAME_OF_PART = {"encoder": "source", "decoder": "target"}


@dataclass
class TrainedModel:
    """What both kinds of model have: a file, the type of their input layers, and these layers.

    `layers` holds one layer of a language model, under "input", and those of the two sides of a
    translation model, "source" and "target"; sides that share one have it under "source" alone.
    """

    path: Path
    embedding_type: str
    layers: dict[str, InputLayer]


@dataclass
class OpenNMTModel(TrainedModel):
    """A checkpoint of OpenNMT-py."""

    checkpoint: dict[str, Any] = field(repr=False)

    def compressed(self, layers: dict[str, CompressedEmbedding]) -> dict[str, Any]:
        """A checkpoint of the same model with these input layers."""
        from onmt_define.opennmt.compressing import compressed_checkpoint

        parts = {part: layers.get(name) for part, name in NAME_OF_PART.items()}
        return compressed_checkpoint(self.checkpoint, parts)


@dataclass
class TrainedLanguageModel(TrainedModel):
    """A model.pt of `onmt_define lm train`."""

    model: Any = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    vocabulary: Any = field(repr=False)

    def compressed(self, layers: dict[str, CompressedEmbedding]) -> dict[str, Any]:
        """What `onmt_define.lm.evaluation.load_model` reads as the same model with this layer."""
        layer = layers["input"]
        self.model.input_layer = layer
        return {
            "settings": self.settings,
            "vocabulary": self.vocabulary.tokens,
            "weights": self.model.state_dict(),
            "compression": {
                "num_embeddings": layer.num_embeddings,
                "embedding_dim": layer.embedding_dim,
                "codebooks": layer.codebooks,
                "codes": layer.codes,
            },
        }


def read_model(path: str | Path) -> OpenNMTModel | TrainedLanguageModel:
    """Read a model of either kind; its weights may stay on the disk until they are used.

    Raises:
        UserError: a missing, damaged or foreign file, or one with an object no such file holds.
    """
    path = Path(path)
    found = checkpoint_files.read(path, lazily=True)
    if isinstance(found, dict) and {"settings", "weights"} <= found.keys():
        return _language_model(path)
    return _opennmt_model(path, checkpoint_files.check(found, path))


def _language_model(path: Path) -> TrainedLanguageModel:
    from onmt_define.lm.evaluation import load_model

    model, settings, vocabulary = load_model(path)
    layer = model.input_layer
    embedding_type = next(
        (name for cls, name in TYPES.items() if isinstance(layer, cls)), type(layer).__name__
    )
    layers = {"input": InputLayer(layer, len(vocabulary))}
    return TrainedLanguageModel(path, embedding_type, layers, model, settings, vocabulary)


def _opennmt_model(path: Path, checkpoint: dict[str, Any]) -> OpenNMTModel:
    from onmt_define.opennmt.input_layers import input_layers, misfit
    from onmt_define.opennmt.safetensors_files import with_weights

    embedding_type = checkpoint_files.embedding_type(checkpoint)
    try:
        found = input_layers(with_weights(checkpoint, path))
    except (RuntimeError, KeyError, AttributeError, ValueError) as error:
        raise misfit(path, error) from error
    if not found:
        raise UserError(f"{path} holds no input layer, expected a whole model")
    layers = {NAME_OF_PART[part]: layer for part, layer in found.items()}
    if checkpoint["opt"].share_embeddings and len(layers) > 1:
        del layers["target"]
    return OpenNMTModel(path, embedding_type, layers, checkpoint)

"""The input layer of a language model: from token ids to the vectors that the context model reads.

A mapping layer turns tokens into vectors e_i; a DeFINE unit, if there is one, deepens these to e_o.
"""

from typing import Any

from torch import nn

from onmt_define.embeddings import (
    AdaptiveEmbedding,
    DefineEmbedding,
    DimensionError,
    ProjectiveEmbedding,
)
from onmt_define.errors import UserError

InputLayer = nn.Embedding | ProjectiveEmbedding | AdaptiveEmbedding | DefineEmbedding

UNIT_OPTIONS = ("schedule", "mix", "reduce", "shuffle")


def build_input_layer(settings: dict[str, Any], vocabulary_size: int) -> InputLayer:
    """Build what the `map` and `unit` of a run's settings describe (see `run.schema.yaml`).

    Raises:
        UserError: sizes from which no layer can be built.
    """
    mapping, unit = settings["map"], settings.get("unit")
    try:
        if unit:
            return _build_define(settings, vocabulary_size)
        if mapping["type"] == "projective":
            width = settings.get("model_dim") or mapping.get("output_dim")
            if width is None:
                raise UserError(
                    "map lacks the key 'output_dim', the width of the vectors that the "
                    f"{settings['model']} reads"
                )
            return ProjectiveEmbedding(vocabulary_size, width, mapping["dim"])
        if mapping["type"] == "adaptive":
            return AdaptiveEmbedding(vocabulary_size, mapping["dim"], **_bands(settings))
    except DimensionError as error:
        raise UserError(
            f"{_key(error.argument)} is {error.value}, expected {error.expected}"
        ) from None
    layer = nn.Embedding(vocabulary_size, mapping["dim"])
    nn.init.normal_(layer.weight, std=mapping["dim"] ** -0.5)
    return layer


def _build_define(settings: dict[str, Any], vocabulary_size: int) -> DefineEmbedding:
    mapping, unit = settings["map"], settings["unit"]
    input_dim = unit.get("input_dim", mapping["dim"])
    if mapping["type"] != "projective" and input_dim != mapping["dim"]:
        raise UserError(
            f"unit.input_dim is {input_dim}, expected map.dim, {mapping['dim']}, unless the map is "
            "projective"
        )
    layer_options = {
        "standard": {},
        "projective": {"table_dim": mapping["dim"]},
        "adaptive": _bands(settings) if mapping["type"] == "adaptive" else {},
    }[mapping["type"]]
    return DefineEmbedding(
        vocabulary_size,
        unit["output_dim"],
        input_dim,
        unit["expand_dim"],
        unit["depth"],
        unit["max_groups"],
        # Models of before there was a choice have none.
        activation=unit.get("activation", "gelu"),
        **layer_options,
        **{option: unit[option] for option in UNIT_OPTIONS if option in unit},
    )


def _bands(settings: dict[str, Any]) -> dict[str, Any]:
    classifier = settings["classifier"]
    if classifier["type"] != "adaptive":
        raise UserError(
            f"map.type is 'adaptive', but classifier.type is {classifier['type']!r}, expected "
            "'adaptive', whose cutoffs and factor the map has too"
        )
    return {"cutoffs": classifier["cutoffs"], "factor": classifier["factor"]}


def _key(argument: str) -> str:
    keys = {
        "embedding_dim": "unit.output_dim",
        "map_dim": "map.dim",
        "table_dim": "map.dim",
        "cutoffs": "classifier.cutoffs",
        "factor": "classifier.factor",
        "num_embeddings": "the vocabulary's size",
    }
    return keys.get(argument, f"unit.{argument}")


def tables_of(layer: InputLayer) -> list[nn.Parameter]:
    """The token tables of a layer's mapping layer, one for each band."""
    match mapping_layer(layer):
        case AdaptiveEmbedding() as adaptive:
            return [table.weight for table in adaptive.tables]
        case ProjectiveEmbedding() as projective:
            return [projective.map_table.weight]
        case table:
            return [table.weight]


def projections_of(layer: InputLayer) -> list[nn.Parameter | None]:
    """The matrix (wide, narrow) behind each of `tables_of`, None where there is none."""
    match mapping_layer(layer):
        case AdaptiveEmbedding() as adaptive:
            return [getattr(projection, "weight", None) for projection in adaptive.projections]
        case ProjectiveEmbedding() as projective:
            return [projective.projection.weight]
        case _:
            return [None]


def mapping_layer(layer: InputLayer) -> nn.Embedding | ProjectiveEmbedding | AdaptiveEmbedding:
    """The layer itself, or what is under its unit."""
    return layer.map_table if isinstance(layer, DefineEmbedding) else layer


def describe_input_layer(layer: InputLayer) -> dict[str, Any]:
    """The `embedding` entry of a run's record."""
    mapping = mapping_layer(layer)
    kinds = {AdaptiveEmbedding: "adaptive", ProjectiveEmbedding: "projective"}
    kind = kinds.get(type(mapping), "standard")
    if not isinstance(layer, DefineEmbedding):
        narrow = {"map_dim": layer.map_dim} if kind == "projective" else {}
        return {"type": kind, **narrow, "output_dim": layer.embedding_dim}
    return {
        "type": "define" if kind == "standard" else f"{kind} + define",
        "map_dim": mapping.map_dim if kind == "projective" else mapping.embedding_dim,
        "expand_dim": layer.unit.expand_dim,
        "output_dim": layer.unit.output_dim,
        "depth": layer.unit.depth,
        "groups": list(layer.unit.groups),
    }

"""A checkpoint whose input layers are codes and codebooks; the plug-in translates with it."""

from argparse import Namespace
from typing import Any

from onmt_define.embeddings import CompressedEmbedding
from onmt_define.opennmt import checkpoint_files
from onmt_define.opennmt.factorised_classifier import fold_classifier
from onmt_define.opennmt.input_layers import WORD_TABLE, without_word_tables


def compressed_checkpoint(
    checkpoint: dict[str, Any], layers: dict[str, CompressedEmbedding | None]
) -> dict[str, Any]:
    """The same model with other input layers, without the optimizer's state.

    A classifier that was tied to the token table keeps a table of its own, in full precision:
    codes can't be multiplied with.

    Args:
        checkpoint: as loaded, with its weights.
        layers: by part, `encoder` and `decoder`; None where the other part's is shared or there
            is none.
    """
    weights, options = without_word_tables(checkpoint["model"]), vars(checkpoint["opt"])
    dtype = next(value.dtype for value in weights.values() if value.is_floating_point())
    if options["share_embeddings"]:
        layers = dict.fromkeys(layers, layers["encoder"] or layers["decoder"])
    for part, layer in layers.items():
        if layer is not None:
            prefix = f"{part}.{WORD_TABLE}"
            weights[f"{prefix}packed_codes"] = layer.packed_codes
            weights[f"{prefix}codewords"] = layer.codewords.detach().to(dtype)
    one = next(layer for layer in layers.values() if layer is not None)
    return {
        "model": weights,
        "generator": fold_classifier(checkpoint["generator"]),
        "vocab": checkpoint["vocab"],
        "opt": Namespace(
            **{
                **options,
                "embedding_type": checkpoint_files.COMPRESSED,
                "compressed_codebooks": one.codebooks,
                "compressed_codes": one.codes,
                "share_decoder_embeddings": False,
            }
        ),
        "optim": None,
    }

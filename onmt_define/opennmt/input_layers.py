"""The input layers of a checkpoint as modules, built outside of OpenNMT-py's model."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

import onmt_define.opennmt.startup  # noqa: F401  gives OpenNMT-py's parser our options
from onmt_define.embeddings.input_layer import InputLayer
from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files
from onmt_define.opennmt.registry import build_embedding

WORD_TABLE = "embeddings.make_embedding.emb_luts.0."
SIDES = {"encoder": "src", "decoder": "tgt"}


def misfit(path: Path, error: Exception) -> UserError:
    """What to raise where building a checkpoint's own layers failed."""
    return UserError(f"{path} doesn't fit its own options: {' '.join(str(error).split())}")


def without_word_tables(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint's weights without those of its input layers."""
    tables = tuple(f"{part}.{WORD_TABLE}" for part in SIDES)
    return {name: value for name, value in weights.items() if not name.startswith(tables)}


def input_layers(checkpoint: dict[str, Any]) -> dict[str, InputLayer]:
    """The input layer of `encoder` and `decoder`; a language model has the latter alone.

    Raises:
        RuntimeError, KeyError: weights that don't fit the options; see `misfit`.
    """
    return {part: layer for part in SIDES if (layer := _input_layer(checkpoint, part)) is not None}


def _input_layer(checkpoint: dict[str, Any], part: str) -> InputLayer | None:
    from onmt.constants import DefaultTokens
    from onmt.inputters.inputter import dict_to_vocabs
    from onmt.opts import model_opts
    from onmt.utils.parse import ArgumentParser

    prefix = f"{part}.{WORD_TABLE}"
    state = {
        name.removeprefix(prefix): value
        for name, value in checkpoint["model"].items()
        if name.startswith(prefix)
    }
    if not state:
        return None
    vocab = dict_to_vocabs(checkpoint["vocab"])[SIDES[part]]
    padding = vocab[DefaultTokens.PAD]
    if checkpoint_files.embedding_type(checkpoint) == checkpoint_files.STANDARD:
        table = nn.Embedding.from_pretrained(state["weight"], padding_idx=padding)
        return InputLayer(table, len(vocab), padding)
    options = ArgumentParser.defaults(model_opts)
    vars(options).update(vars(checkpoint["opt"]))
    ArgumentParser.update_model_opts(options)
    width = options.src_word_vec_size if part == "encoder" else options.tgt_word_vec_size
    layer = build_embedding(options, len(vocab), width, padding)
    layer.load_state_dict(state)
    return InputLayer(layer, len(vocab), padding)

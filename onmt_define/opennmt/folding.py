"""Folding: a trained model as a plain checkpoint of stock OpenNMT-py.

What a factorised embedding makes of a token depends on the token alone. Run once over the
vocabulary, it becomes an ordinary table under OpenNMT-py's own name; the result translates the
same without this package, and CTranslate2 converts it.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import onmt_define.opennmt.startup  # noqa: F401  gives OpenNMT-py's parser our options
from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.opennmt import checkpoint_files
from onmt_define.opennmt.factorised_classifier import fold_classifier
from onmt_define.opennmt.registry import build_embedding
from onmt_define.opennmt.safetensors_files import read_weights

WORD_TABLE = "embeddings.make_embedding.emb_luts.0."


def fold_file(model: str | Path, output: str | Path) -> str:
    """Fold the checkpoint `model` into the new file `output`; returns what was done, in words.

    Raises:
        UserError: a checkpoint that can't be read, is plain already or holds no whole model.
    """
    model, output = Path(model), Path(output)
    checkpoint = checkpoint_files.load(model)
    embedding_type = checkpoint_files.embedding_type(checkpoint)
    if embedding_type == checkpoint_files.STANDARD:
        raise UserError(f"{model} is a plain model already, there is nothing to fold")
    if output.exists() and output.samefile(model):
        raise UserError(f"--output is the model {model} itself, expected another file")
    if "model" not in checkpoint:
        checkpoint.update(read_weights(model))
    if not checkpoint["generator"]:
        raise UserError(f"{model} holds LoRA weights alone, expected a checkpoint of a whole model")
    try:
        folded = fold(checkpoint)
    except (RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{model} doesn't fit its own options: {reason}") from error
    try:
        with complete_or_absent(output) as temporary:
            torch.save(folded, temporary)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{output} can't be written: {error}") from error
    return (
        f"folded {model} (embedding_type {embedding_type}) into {output}\n"
        f"weights    {_size(checkpoint)} -> {_size(folded)} parameters\n"
        f"file       {_megabytes(model)} -> {_megabytes(output)} MB, optimizer state dropped"
    )


def fold(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The same model with tables in place of its embeddings, as stock OpenNMT-py would save it."""
    weights = dict(checkpoint["model"])
    tables: dict[str, Tensor] = {}
    for side, part in (("src", "encoder"), ("tgt", "decoder")):
        prefix = f"{part}.{WORD_TABLE}"
        state = {
            name.removeprefix(prefix): weights.pop(name)
            for name in list(weights)
            if name.startswith(prefix)
        }
        if state:
            tables[part] = _table(checkpoint, side, state)
            if checkpoint["opt"].share_embeddings:
                tables[part] = tables.get("encoder", tables[part])  # one table, stored once
            weights[f"{prefix}weight"] = tables[part]
    return {
        "model": weights,
        "generator": fold_classifier(checkpoint["generator"]),
        "vocab": checkpoint["vocab"],
        "opt": _plain_options(checkpoint["opt"]),
        "optim": None,
    }


@torch.no_grad()
def _table(checkpoint: dict[str, Any], side: str, state: dict[str, Tensor]) -> Tensor:
    """The vectors of all tokens of one side, (vocabulary, width), in the checkpoint's dtype."""
    from onmt.constants import DefaultTokens
    from onmt.inputters.inputter import dict_to_vocabs
    from onmt.opts import model_opts
    from onmt.utils.parse import ArgumentParser

    options = ArgumentParser.defaults(model_opts)
    vars(options).update(vars(checkpoint["opt"]))
    ArgumentParser.update_model_opts(options)
    width = options.src_word_vec_size if side == "src" else options.tgt_word_vec_size
    vocab = dict_to_vocabs(checkpoint["vocab"])[side]
    embedding = build_embedding(options, len(vocab), width, vocab[DefaultTokens.PAD])
    embedding.load_state_dict(state)
    dtype = next(iter(state.values())).dtype
    return embedding.eval().float()(torch.arange(len(vocab))).to(dtype)


def _plain_options(options: Namespace) -> Namespace:
    prefixes = ("define_", "embedding_type", "packed_", "training_loop", "compute_dtype")
    ours = {name for name in vars(options) if name.startswith(prefixes)}
    plain = {name: value for name, value in vars(options).items() if name not in ours}
    # A classifier of its own width m can't be the table that it was tied to. The attention is the
    # same under both of its names, and CTranslate2 knows this one; OpenNMT-py takes the name from
    # the translating command.
    plain.update(share_decoder_embeddings=False, self_attn_type="scaled-dot")
    return Namespace(**plain)


def _size(checkpoint: dict[str, Any]) -> str:
    tensors = {**checkpoint["model"], **checkpoint["generator"]}
    return f"{sum(tensor.numel() for tensor in tensors.values()):,}"


def _megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f}"

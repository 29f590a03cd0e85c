"""Folding: a trained model as a plain checkpoint of stock OpenNMT-py.

What a factorised embedding makes of a token depends on the token alone. Run once over the
vocabulary, it becomes an ordinary table under OpenNMT-py's own name; the result translates the
same without this package, and CTranslate2 converts it.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.files import require_other_file, save_by_torch
from onmt_define.opennmt import checkpoint_files
from onmt_define.opennmt.factorised_classifier import fold_classifier
from onmt_define.opennmt.input_layers import (
    WORD_TABLE,
    input_layers,
    misfit,
    without_word_tables,
)
from onmt_define.opennmt.safetensors_files import load_whole, size_in_bytes


def fold_file(model: str | Path, output: str | Path) -> str:
    """Fold the checkpoint `model` into the new file `output`; returns what was done, in words.

    Raises:
        UserError: a checkpoint that can't be read, is plain already or holds no whole model.
    """
    model, output = Path(model), Path(output)
    require_other_file(output, model)
    checkpoint = load_whole(model)
    embedding_type = checkpoint_files.embedding_type(checkpoint)
    if embedding_type == checkpoint_files.STANDARD:
        raise UserError(f"{model} is a plain model already, there is nothing to fold")
    try:
        folded = fold(checkpoint)
    except (RuntimeError, KeyError, ValueError) as error:
        raise misfit(model, error) from error
    try:
        save_by_torch(folded, output)
    except OSError as error:
        raise UserError(f"{output} can't be written: {error}") from error
    return (
        f"folded {model} (embedding_type {embedding_type}) into {output}\n"
        f"weights    {_size(checkpoint)} -> {_size(folded)} parameters\n"
        f"file       {_megabytes(size_in_bytes(model))} -> "
        f"{_megabytes(output.stat().st_size)} MB, optimizer state dropped"
    )


def fold(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The same model with tables in place of its embeddings, as stock OpenNMT-py would save it."""
    weights, tables = without_word_tables(checkpoint["model"]), {}
    dtype = next(value.dtype for value in weights.values() if value.is_floating_point())
    for part, layer in input_layers(checkpoint).items():
        tables[part] = layer.table().to(dtype)
        if checkpoint["opt"].share_embeddings:
            tables[part] = tables.get("encoder", tables[part])  # one table, stored once
        weights[f"{part}.{WORD_TABLE}weight"] = tables[part]
    return {
        "model": weights,
        "generator": fold_classifier(checkpoint["generator"]),
        "vocab": checkpoint["vocab"],
        "opt": _plain_options(checkpoint["opt"]),
        "optim": None,
    }


def _plain_options(options: Namespace) -> Namespace:
    prefixes = (
        *("define_", "embedding_type", "compressed_"),
        *("packed_", "training_loop", "compute_dtype"),
    )
    ours = {name for name in vars(options) if name.startswith(prefixes)}
    plain = {name: value for name, value in vars(options).items() if name not in ours}
    # A classifier of its own width m can't be the table that it was tied to. The attention is the
    # same under both of its names, unless it is average, and CTranslate2 knows this one; OpenNMT-py
    # takes the name from the translating command.
    plain["share_decoder_embeddings"] = False
    if plain["self_attn_type"] != "average":
        plain["self_attn_type"] = "scaled-dot"
    return Namespace(**plain)


def _size(checkpoint: dict[str, Any]) -> str:
    tensors = {**checkpoint["model"], **checkpoint["generator"]}
    return f"{sum(tensor.numel() for tensor in tensors.values()):,}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"

"""LoRA (Hu et al., 2022): low-rank adapters trained on a model whose own weights stay as they are.

OpenNMT-py 3.5.1 saves the adapters alone, can't use such a checkpoint, and trains the classifier
beside them without saving it. Here the classifier stays as it is, and the adapters become part of
the model that they were trained on.
"""

import hashlib
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onmt_define.errors import UserError
from onmt_define.files import require_other_file
from onmt_define.opennmt import checkpoint_files

TABLE = ".emb_luts."


def is_asked_for(opt: Namespace) -> bool:
    """Whether options put adapters on layers of the model."""
    return bool(getattr(opt, "lora_layers", None) or getattr(opt, "lora_embedding", False))


def check_training(opt: Namespace) -> None:
    """Raise `UserError` where training adapters would be of no use, or doesn't happen at all."""
    if not is_asked_for(opt):
        return
    if opt.lora_embedding and (opt.share_embeddings or opt.share_decoder_embeddings):
        raise UserError(
            "lora_embedding can't be combined with share_embeddings or share_decoder_embeddings: "
            "each use of the shared table would get adapters of its own"
        )
    if not opt.train_from:
        raise UserError(
            f"lora_layers is {opt.lora_layers} without train_from, but the checkpoints hold the "
            "adapters alone: set train_from to the trained model that they are for"
        )
    if not opt.override_opts:
        raise UserError(
            f"lora_layers is {opt.lora_layers}, but with train_from the options of "
            f"{opt.train_from} count unless override_opts is true"
        )
    if opt.reset_optim not in ("all", "states"):
        raise UserError(
            f"reset_optim is {opt.reset_optim}, expected all or states: the optimizer of "
            f"{opt.train_from} knows no adapters"
        )


def prepare_training(model: Any, opt: Namespace) -> None:
    """Let what is not saved stay as it is; raise `UserError` for a model without any adapter."""
    if not is_asked_for(opt):
        return
    if not any("lora_" in name for name, _ in model.named_parameters()):
        raise UserError(
            f"lora_layers is {opt.lora_layers} with lora_rank {opt.lora_rank}, which changes no "
            "layer of the model, expected names such as linear_query and a rank of at least 1"
        )
    model.generator.requires_grad_(False)
    opt.lora_base = _fingerprint(model.state_dict())


def require_whole(checkpoint: dict[str, Any], path: str | Path) -> None:
    """Raise `UserError` for a checkpoint with adapters alone, or without a classifier."""
    options = checkpoint["opt"]
    if is_asked_for(options):
        base = getattr(options, "train_from", None) or "BASE"
        raise UserError(
            f"{path} holds LoRA adapters alone: put them into the model that they were trained on "
            f"(onmt_define merge-lora {base} {path} -o merged.pt)"
        )
    if "model" in checkpoint and not (checkpoint["model"] and checkpoint.get("generator")):
        raise UserError(f"{path} holds no weights of a whole model, expected model and generator")


def merge_lora_files(base: str | Path, adapted: str | Path, output: str | Path) -> str:
    """Write the model `base` with the adapters of `adapted` in it; returns what was done, in words.

    Raises:
        UserError: files that can't be read or aren't of one model, or an output that can't be
            written.
    """
    from onmt_define.opennmt.safetensors_files import load_whole, read_weights

    output = Path(output)
    require_other_file(output, base, adapted)
    whole, adapters = load_whole(base), checkpoint_files.load(adapted)
    if not is_asked_for(adapters["opt"]):
        raise UserError(f"{adapted} holds no LoRA adapters, expected a checkpoint with lora_layers")
    if "model" not in adapters:
        adapters.update(read_weights(Path(adapted)))
    if adapters["vocab"] != whole["vocab"]:
        raise UserError(f"{adapted} and {base} have different vocabularies, expected one model")
    trained_on = getattr(adapters["opt"], "lora_base", None)  # not noted by stock OpenNMT-py
    if trained_on and trained_on != _fingerprint(whole["model"]):
        raise UserError(
            f"{adapted} wasn't trained on {base}, whose weights are others than those of "
            f"{adapters['opt'].train_from} then"
        )
    try:
        layers = _merge(whole["model"], adapters["model"], adapters["opt"].lora_alpha)
    except (KeyError, RuntimeError) as error:
        raise UserError(f"{adapted} wasn't trained on {base}: {error}") from error
    try:
        checkpoint_files.save({**whole, "optim": None}, output)
    except OSError as error:
        raise UserError(f"{output} can't be written: {error}") from error
    return f"merged {layers} adapters of {adapted} into {base}: {output}, optimizer state dropped"


@torch.no_grad()
def _fingerprint(weights: dict[str, Tensor]) -> str:
    """Of what adapters are trained on: the weights of encoder and decoder, in 32 bits."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        if not name.startswith("generator.") and "lora_" not in name:
            digest.update(name.encode())
            digest.update(weights[name].detach().cpu().float().contiguous().numpy().data)
    return digest.hexdigest()


@torch.no_grad()
def _merge(weights: dict[str, Tensor], adapters: dict[str, Tensor], alpha: float) -> int:
    """Add alpha/r * B @ A to each adapted weight, and take the adapters' biases."""
    prefixes = [name.removesuffix("lora_A") for name in adapters if name.endswith("lora_A")]
    for prefix in prefixes:
        down, up = adapters[f"{prefix}lora_A"].float(), adapters[f"{prefix}lora_B"].float()
        change = alpha / len(down) * (up @ down)
        if TABLE in prefix:
            change = change.T  # of a table, OpenNMT-py's adapters make the transposed one
        weight = weights[f"{prefix}weight"]
        weights[f"{prefix}weight"] = (weight.float() + change).to(weight.dtype)
        if f"{prefix}bias" in adapters:
            weights[f"{prefix}bias"] = adapters[f"{prefix}bias"]
    return len(prefixes)

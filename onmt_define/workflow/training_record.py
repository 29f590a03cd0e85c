"""The record of a finished training: what was trained, on what, how fast, and how it went."""

from typing import Any

from onmt_define.embeddings.group_schedules import cyclic_groups
from onmt_define.environment import versions
from onmt_define.opennmt.embedding_types import STANDARD
from onmt_define.workflow.learning_curve import LearningCurve


def training_record(
    checkpoint: dict[str, Any],
    *,
    run: str,
    seed: int,
    corpus: str,
    steps: int,
    model_step: int,
    device: str,
    curve: LearningCurve,
    tries: list[dict[str, Any]],
    gpu_use: dict[str, Any] | None,
) -> dict[str, Any]:
    """All facts of a translation run for record.json.

    `model_step` is the step of the checkpoint that became the model; `tries` are the starts of the
    training, each with the step it went on from and its seconds; `gpu_use` is what
    `onmt_define.gpu_use.summarise` found.
    """
    vocabulary = checkpoint["vocab"]
    return {
        "kind": "translation",
        "run": run,
        "seed": seed,
        "corpus": corpus,
        "embedding": _embedding(checkpoint["opt"]),
        "parameters": count_parameters(checkpoint),
        "vocabulary": {"source": len(vocabulary["src"]), "target": len(vocabulary["tgt"])},
        "steps": steps,
        "model_step": model_step,
        "seconds": round(sum(attempt["seconds"] for attempt in tries), 1),
        "device": device,
        "tries": tries,
        "gpu_use": gpu_use,
        "tokens_per_second": curve.tokens_per_second(),
        "learning_curve": curve.training,
        "validation": curve.validation,
        "versions": versions("OpenNMT-py"),
    }


def _embedding(opt: Any) -> dict[str, Any]:
    kind = getattr(opt, "embedding_type", STANDARD)
    embedding = {"type": kind, "output_dim": opt.tgt_word_vec_size}
    if kind != STANDARD:
        embedding["map_dim"] = opt.define_map_dim
    if kind == "define":
        embedding["expand_dim"] = opt.define_expand_dim
        embedding["depth"] = opt.define_depth
        embedding["activation"] = opt.define_activation
        embedding["groups"] = cyclic_groups(opt.define_depth, opt.define_groups)
    return embedding


def count_parameters(checkpoint: dict[str, Any]) -> dict[str, int]:
    """Parameters by part of the model; a tensor that two parts share counts in the first."""
    opt = checkpoint["opt"]
    parts = dict.fromkeys(
        ("source embedding", "target embedding", "encoder", "decoder", "generator"), 0
    )
    for name, tensor in checkpoint["model"].items():
        if name.endswith("make_embedding.pe.pe"):
            continue  # the sinusoids, which aren't trained
        side = name.split(".", 1)[0]
        if name.startswith(f"{side}.embeddings."):
            part = "source embedding" if side == "encoder" else "target embedding"
            if part == "target embedding" and opt.share_embeddings:
                continue
            parts[part] += tensor.numel()
        else:
            parts[side] += tensor.numel()
    for name, tensor in checkpoint["generator"].items():
        if not (name == "weight" and opt.share_decoder_embeddings):
            parts["generator"] += tensor.numel()
    return {**parts, "total": sum(parts.values())}

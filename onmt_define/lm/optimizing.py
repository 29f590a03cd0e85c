"""Optimiser, learning rates and precision of a run."""

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import torch

from onmt_define.errors import UserError

LIGHTNING_PRECISIONS = {
    "float32": "32-true",
    "tf32": "32-true",
    "bfloat16": "bf16-mixed",
    "float16": "16-mixed",
}


def build_optimizer(
    settings: dict[str, Any], parameters: list[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """SGD without momentum, or Adam, on a GPU in one kernel."""
    optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    # With float16 the gradients are scaled and clipped between backward and step.
    fused = parameters[0].device.type == "cuda" and settings["precision"] != "float16"
    return optimizers[settings["optimizer"]](
        parameters,
        lr=settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        fused=fused or None,
    )


def learning_rate_factor(settings: dict[str, Any], steps_per_epoch: int) -> Callable[[int], float]:
    """What `learning_rate` is multiplied by in each step, counted from 0."""
    total = settings["epochs"] * steps_per_epoch
    warm_up = settings["warmup_steps"]

    def factor(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        if settings["schedule"] == "cosine":
            done = (step - warm_up) / max(1, total - warm_up)
            return (1 + math.cos(math.pi * min(1.0, done))) / 2
        reductions = bisect_left(sorted(settings["decay_epochs"]), step // steps_per_epoch + 1)
        return settings["decay_factor"] ** reductions

    return factor


def set_precision(settings: dict[str, Any], gpus: int) -> str:
    """Set how exact matrix products are; returns Lightning's name for the rest.

    Raises:
        UserError: what the CPU can't do.
    """
    precision = settings["precision"]
    on_cpu = ["float32", "tf32"]
    if settings["model"] == "transformer-xl":
        on_cpu.append("bfloat16")
    if not gpus and precision not in on_cpu:
        raise UserError(
            f"precision is {precision!r}, expected {' or '.join(on_cpu)} on the CPU for model "
            f"{settings['model']}"
        )
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "float32"
    return LIGHTNING_PRECISIONS[precision]

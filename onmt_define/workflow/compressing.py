"""Runs `onmt_define compress` for one trained model, on a leased GPU or on the CPU."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from onmt_define.errors import UserError
from onmt_define.workflow.gpus import visible_gpus
from onmt_define.workflow.leases import lease


def compress(
    model: str | Path,
    output: str | Path,
    score: Sequence[str | Path],
    *,
    codebooks: int,
    codes: int,
    steps: int,
    gpus: int,
    log_path: str | Path,
) -> None:
    """Compress a model's input layers and score it before and after.

    Args:
        model: a run's model.pt.
        output: the compressed model; its record lies beside it under the suffix .json.
        score: a text for a language model, a source and its reference for a translation model.
        codebooks, codes, steps: see `onmt_define compress`.
        gpus: 1 to use a GPU where one is visible, 0 for the CPU.
        log_path: gpus.tsv beside it says when the GPU was taken.

    Raises:
        UserError: if it fails, which says itself why.
    """
    use_gpu = gpus > 0 and bool(visible_gpus())
    job = f"compress {Path(model).parent.parent.name}"
    sizes = ["--codebooks", str(codebooks), "--codes", str(codes), "--steps", str(steps)]
    command = ["onmt_define", "compress", str(model), "-o", str(output), *sizes]
    with lease(int(use_gpu), job, Path(log_path).with_name("gpus.tsv")):
        hidden = {} if use_gpu else {"CUDA_VISIBLE_DEVICES": ""}
        status = subprocess.run(
            [*command, "--score", *map(str, score)], env={**os.environ, **hidden}
        ).returncode
    if status != 0:
        raise UserError(f"compressing {model} ended with status {status}")

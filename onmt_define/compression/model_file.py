"""Compresses the input layers of a model's file and records what that saves and costs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from onmt_define.compression.code_learning import Progress
from onmt_define.compression.table import Compression, compress_layer
from onmt_define.embeddings import DimensionError
from onmt_define.embeddings.dimensions import require_between
from onmt_define.embeddings.input_layer import InputLayer
from onmt_define.embeddings.packed_codes import MAX_BITS
from onmt_define.errors import UserError
from onmt_define.files import require_other_file, save_by_torch
from onmt_define.progress_line import time_left
from onmt_define.trained_models import COMPRESSED, read_model

# Refining solves for all codewords at once, a square matrix of this many rows.
MAX_CODEWORDS = 1 << 14
TOKENS_A_BATCH = 1024
BYTES_A_NUMBER = 4


def compress_file(
    path: str | Path, output: str | Path, codebooks: int, codes: int, steps: int, seed: int
) -> dict[str, Any]:
    """Write the model `path` with compressed input layers to `output`; returns the record of it.

    Raises:
        UserError: sizes that can't be, a file that can't be read or written, a compressed model.
    """
    path, output = Path(path), Path(output)
    check_sizes(codebooks, codes)
    require_other_file(output, path)
    model = read_model(path)
    if model.embedding_type == COMPRESSED:
        raise UserError(f"{path} is compressed already, expected the model that it was made of")
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    started = time.monotonic()
    found: dict[str, Compression] = {}
    for name, layer in model.layers.items():
        _require_finite(layer, f"{path}, {name} embedding")
        found[name] = compress_layer(layer, codebooks, codes, steps, device, _printer(name))
    seconds = time.monotonic() - started
    layers = {name: _describe(model.layers[name], one) for name, one in found.items()}
    try:
        save_by_torch(model.compressed({name: one.layer for name, one in found.items()}), output)
    except OSError as error:
        raise UserError(f"{output} can't be written: {error}") from error
    return {
        "kind": "compression",
        "model": str(path),
        "output": str(output),
        "embedding_type": model.embedding_type,
        "codebooks": codebooks,
        "codes": codes,
        "steps": steps,
        "seed": seed,
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "seconds": seconds,
        "layers": layers,
        "file_bytes": {"before": path.stat().st_size, "after": output.stat().st_size},
    }


def check_sizes(codebooks: int, codes: int) -> None:
    """Raise `UserError` unless there can be so many codebooks and codewords in each."""
    try:
        require_between("--codebooks", codebooks, 1)
        require_between("--codes", codes, 2, 1 << MAX_BITS)
    except DimensionError as error:
        raise UserError(str(error)) from None
    if codebooks * codes > MAX_CODEWORDS:
        raise UserError(
            f"--codebooks {codebooks} of --codes {codes} are {codebooks * codes:,} codewords, "
            f"expected at most {MAX_CODEWORDS:,}"
        )


def _require_finite(layer: InputLayer, where: str) -> None:
    for tokens in layer.token_chunks():
        if not layer.vectors(tokens).isfinite().all():
            raise UserError(f"{where}: a vector is not finite, expected a model that has learned")


def _printer(name: str) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        print(
            f"[{name}] step {progress.step:,}/{progress.steps:,} "
            f"({progress.step / progress.steps:.0%}), error {progress.error:.1%}, "
            f"{time_left(progress.seconds_left)} left",
            flush=True,
        )

    return show


def _describe(layer: InputLayer, found: Compression) -> dict[str, Any]:
    tokens, width = found.layer.num_embeddings, found.layer.embedding_dim
    return {
        "tokens": tokens,
        "width": width,
        "table_bytes": tokens * width * BYTES_A_NUMBER,
        "trained_bytes": sum(p.numel() for p in layer.module.parameters()) * BYTES_A_NUMBER,
        "compressed_bytes": found.layer.packed_codes.numel()
        + found.layer.codewords.numel() * BYTES_A_NUMBER,
        "learned_error": found.learned_error,
        "error": found.error,
        "lookup_ms": {
            "before": _lookup_time(layer.module.eval(), tokens),
            "after": _lookup_time(found.layer, tokens),
        },
    }


@torch.inference_mode()
def _lookup_time(layer: nn.Module, vocabulary: int) -> float:
    """Milliseconds to look up a batch of random tokens on the CPU: the best of some tries."""
    tokens = torch.randint(vocabulary, (TOKENS_A_BATCH,))
    layer(tokens)  # a factorised layer computes its table now
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        layer(tokens)
        best = min(best, time.perf_counter() - started)
    return best * 1e3

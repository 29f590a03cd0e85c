"""One resolved OpenNMT-py configuration for each training."""

import math
from pathlib import Path
from typing import Any


def resolve_training(
    options: dict[str, Any],
    *,
    bpe_dir: str | Path,
    output_dir: str | Path,
    source_language: str,
    target_language: str,
    seed: int,
) -> dict[str, Any]:
    """Complete a run's options to a configuration for `onmt_train` on one GPU or the CPU."""
    bpe, sharing = Path(bpe_dir), "shared" if options.get("share_vocab") else "separate"
    vocabulary = {
        side: str(bpe / f"vocabulary-{sharing}.{language}")
        for side, language in (("src", source_language), ("tgt", target_language))
    }
    data: dict[str, dict[str, Any]] = {
        split: {
            "path_src": str(bpe / f"{split}.{source_language}"),
            "path_tgt": str(bpe / f"{split}.{target_language}"),
            "transforms": [],
        }
        for split in ("train", "valid")
    }
    data["train"]["weight"] = 1
    return {
        "data": data,
        "src_vocab": vocabulary["src"],
        "tgt_vocab": vocabulary["tgt"],
        "save_model": str(Path(output_dir) / "checkpoints" / "checkpoint"),
        **options,
        "seed": seed,
    }


def spread_over_gpus(config: dict[str, Any], gpus: int) -> tuple[int, list[int]]:
    """Batch size per GPU and accumulation for `gpus` GPUs at an unchanged effective batch.

    The configuration is written for one GPU. Of the ways that keep its effective batch at all times
    the one with the largest batch per GPU is taken, which is never larger than the configuration's.

    Returns:
        batch_size (in the configuration's unit, for each GPU) and accum_count (one entry for each
        entry of the configuration's).
    """
    batch_size, counts = config.get("batch_size", 64), config.get("accum_count", [1])
    counts = counts if isinstance(counts, list) else [counts]
    first = math.ceil(counts[0] / gpus)
    # The batch per GPU stays the same during the training, so all counts shrink by one factor.
    while any(count * first % counts[0] for count in counts):
        first += 1
    scaled = [count * first // counts[0] for count in counts]
    return max(1, round(batch_size * counts[0] / (gpus * first))), scaled

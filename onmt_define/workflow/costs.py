"""What a configuration will cost before it starts: downloads, disk and GPU-hours, as estimates.

Sizes of text come from those of WMT14 (bytes a sentence pair), of checkpoints from the number of
weights, hours from the speeds in docs/performance.md, or from a finished seed of the same run.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.lm.paper_runs import paper_run
from onmt_define.paper.published import find_row, merge
from onmt_define.workflow.config import corpus_folders, corpus_splits, languages
from onmt_define.workflow.plan import training_options, user_files
from onmt_define.workflow.sources import download_sizes, training_lines

GIB = 2**30
RAW_BYTES_A_PAIR = 311
RAW_BYTES_A_LINE = 300  # of a corpus for language models
# Sizes after each step over that of the raw text.
CLEAN, ENCODED, TOKEN_IDS = 1.07, 1.21, 0.8
BYTES_A_WEIGHT, BYTES_A_WEIGHT_WITH_ADAM = 4, 12

# One H100 or H200, from docs/performance.md.
TOKENS_A_SECOND = {"packed": 437_015, "stock": 28_472}  # of a Transformer base
WEIGHTS_AT_WORK = 60_000_000  # of that model: all but the input tables
LM_TOKENS_A_SECOND = {"awd-lstm": 76_000, "transformer-xl": 94_365}
LM_TOKENS = {"ptb": 929_589, "wikitext-2": 2_088_628, "wikitext-103": 103_227_021}
TOKENS_A_SENTENCE = 25
LM_CHECKPOINTS = 3


@dataclass(frozen=True)
class Download:
    """A corpus or test set that is still to come; `size` in bytes, None where it isn't known."""

    name: str
    size: int | None


@dataclass(frozen=True)
class Training:
    """One run and seed; `hours` of one GPU, None where no speed is known; disk in bytes."""

    name: str
    done: bool
    hours: float | None
    disk: int


@dataclass(frozen=True)
class Costs:
    """Bytes of disk are those that come in addition to what is there."""

    downloads: list[Download]
    trainings: list[Training]
    disk_at_peak: int
    disk_at_end: int


def estimate(config: dict[str, Any]) -> Costs:
    """What is still to be done and kept, in the current folder, for a completed configuration."""
    downloads = list(_downloads(config))
    trainings = [*_translations(config), *_language_models(config)]
    text, while_fetching = _text(config)
    for name, archives in _language_model_corpora(config):
        size = training_lines(name) * RAW_BYTES_A_LINE
        text += size
        while_fetching = max(while_fetching, 2 * size + sum(one.size or 0 for one in archives))
    end = text + sum(training.disk for training in trainings if not training.done)
    return Costs(downloads, trainings, max(end, while_fetching), end)


def check_disk(config: dict[str, Any], where: str) -> None:
    """Raise `UserError` if the current folder's disk can't hold what is still to come."""
    needed, free = estimate(config).disk_at_peak, shutil.disk_usage(Path.cwd()).free
    if needed > free:
        raise UserError(
            f"{where}: about {needed / GIB:.1f} GiB of disk are needed, but {Path.cwd()} has "
            f"{free / GIB:.1f} GiB free; fewer runs, seeds or keep_checkpoint need less"
        )


# --- Text ----------------------------------------------------------------------------------------


def _downloads(config: dict[str, Any]) -> Iterator[Download]:
    raw, *_ = corpus_folders(config)
    corpus = config["corpus"]
    if "download" in corpus and not Path(raw, "provenance.json").exists():
        yield from _files_of(corpus["download"], corpus_splits(config)[2:])
    for _, archives in _language_model_corpora(config):
        yield from archives


def _files_of(corpus: str, test_sets: list[str] | None = None) -> Iterator[Download]:
    sizes = download_sizes(corpus, test_sets)
    yield from (Download(name, size) for name, size in sizes.items())


def _language_model_corpora(config: dict[str, Any]) -> Iterator[tuple[str, list[Download]]]:
    runs = config.get("language_models", {"runs": []})["runs"]
    for name in dict.fromkeys(run["corpus"].get("download") for run in runs):
        if name and not Path("data", name, "raw", "provenance.json").exists():
            yield name, list(_files_of(name))


def _text(config: dict[str, Any]) -> tuple[int, int]:
    """Bytes of the parallel text in all its forms, and while it is being fetched."""
    raw_folder, clean_folder, bpe_folder = map(Path, corpus_folders(config))
    corpus, there = config["corpus"], languages(config)[0]
    if "download" in corpus:
        raw = training_lines(corpus["download"]) * RAW_BYTES_A_PAIR
        archives = sum(one.size or 0 for one in _files_of(corpus["download"], []))
    elif "generate" in corpus:
        raw, archives = corpus["generate"]["pairs"] * RAW_BYTES_A_PAIR, 0
    else:
        paths = [Path(path) for path in user_files(corpus["files"])]
        raw, archives = sum(path.stat().st_size for path in paths if path.exists()), 0
    size, while_fetching = 0.0, 0
    if not (raw_folder / f"train.{there}").exists():
        size += raw
        while_fetching = archives + 2 * raw  # the archives stay until all is extracted and joined
    if not (clean_folder / f"train.{there}").exists():
        size += CLEAN * raw
    if not (bpe_folder / f"train.{there}").exists():
        size += (ENCODED + TOKEN_IDS) * raw
    return int(size), int(while_fetching)


# --- Trainings -----------------------------------------------------------------------------------


def _translations(config: dict[str, Any]) -> Iterator[Training]:
    for run in config["translation"]["runs"]:
        options = training_options(config, run["name"])
        tables, at_work = _weights(options, config["bpe"]["merges"])
        models = 2 if config["translation"]["averaging"] else 1
        # One more while the newest is saved and the oldest still there.
        kept = max(options.get("keep_checkpoint", 1), 1) + 1
        disk = (tables + at_work) * (kept * BYTES_A_WEIGHT_WITH_ADAM + models * BYTES_A_WEIGHT)
        folder = Path("results", config["name"], "mt", run["name"])
        speed = _measured(folder) or (
            TOKENS_A_SECOND[options.get("training_loop", "stock")] * WEIGHTS_AT_WORK / at_work
        )
        hours = options["train_steps"] * _tokens_a_step(options) / speed / 3600
        for seed in run["seeds"]:
            done = (folder / f"seed{seed}" / "record.json").exists()
            yield Training(f"{run['name']} seed {seed}", done, hours, disk)


def _weights(options: dict[str, Any], vocabulary: int) -> tuple[int, int]:
    """Weights of the input tables, and of all that a token is multiplied with."""
    width = options.get("hidden_size", 500)
    inner = options.get("transformer_ff", 2048)
    layers = options.get("layers", 2)
    stacks = layers * (12 * width**2 + 4 * width * inner)
    narrow = options.get("embedding_type", "standard") != "standard"
    table_width = options["define_map_dim"] if narrow else options.get("word_vec_size", width)
    tables = vocabulary * table_width * (1 if options.get("share_embeddings") else 2)
    return tables, stacks + vocabulary * width


def _tokens_a_step(options: dict[str, Any]) -> float:
    counts = options.get("accum_count", [1])
    count = counts[-1] if isinstance(counts, list) else counts
    batch = options.get("batch_size", 64) * count
    return batch if options.get("batch_type") == "tokens" else batch * TOKENS_A_SENTENCE


def _measured(folder: Path) -> float | None:
    """Source tokens a second of one GPU in another seed of this run, if there is one."""
    for path in sorted(folder.glob("seed*/record.json")):
        try:
            speed = json.loads(path.read_text(encoding="utf-8"))["tokens_per_second"]["source"]
        except (ValueError, KeyError, TypeError):
            continue
        if speed:
            return speed
    return None


def _language_models(config: dict[str, Any]) -> Iterator[Training]:
    section = config.get("language_models", {"runs": [], "training": {}})
    for run in section["runs"]:
        settings = paper_run(run["paper"]) if "paper" in run else section["training"]
        settings = merge(settings, run["options"])
        tokens = LM_TOKENS.get(run["corpus"].get("download", ""))
        speed = LM_TOKENS_A_SECOND.get(settings.get("model", ""))
        hours = None
        if tokens and speed and settings.get("epochs"):
            hours = settings["epochs"] * tokens / speed / 3600
        folder = Path("results", config["name"], "lm", run["name"])
        for seed in run["seeds"]:
            done = (folder / f"seed{seed}" / "record.json").exists()
            disk = LM_CHECKPOINTS * BYTES_A_WEIGHT_WITH_ADAM * _millions(run) * 10**6
            yield Training(f"{run['name']} seed {seed}", done, hours, disk)


def _millions(run: dict[str, Any]) -> int:
    """Weights that the row of the paper prints, 0 where nothing is known."""
    printed = find_row(run["paper"]).printed if "paper" in run else {}
    return round(float(printed.get("parameters", {}).get("total", 0)))

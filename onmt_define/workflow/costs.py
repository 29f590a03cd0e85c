"""What a configuration will cost before it starts: downloads, disk and GPU-hours, as estimates.

Sizes of text come from those of WMT14 (bytes a sentence pair), of checkpoints from the number of
weights, hours from the speeds in docs/performance.md, or from a finished seed of the same run.
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from onmt_define.errors import UserError
from onmt_define.paper.published import find_row
from onmt_define.workflow.config import corpus_folders, corpus_splits, languages
from onmt_define.workflow.plan import (
    language_model_folder,
    language_model_settings,
    training_options,
    translation_folder,
    translation_settings,
    user_files,
)
from onmt_define.workflow.same_training import newest_step
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
LM_TOKENS = {"ptb": 929_589, "wikitext-2": 2_088_628, "wikitext-103": 103_227_021}
LM_TOKENS_A_SECOND = {"awd-lstm": LM_TOKENS["ptb"] / 5.8, "transformer-xl": 283_380}
TOKENS_A_SENTENCE = 25
LM_CHECKPOINTS = 2


@dataclass(frozen=True)
class Download:
    """A corpus or test set that is still to come; `size` in bytes, None where it isn't known."""

    name: str
    size: int | None


@dataclass(frozen=True)
class Training:
    """One run and seed, and what it still takes.

    `hours` of one GPU, from the newest checkpoint (`step`) on, None where no speed is known; bytes
    of disk in addition to what is there, at its end and at the most while it runs.
    """

    name: str
    folder: Path
    done: bool
    hours: float | None
    disk_at_end: int
    disk_at_peak: int
    step: int = 0


@dataclass(frozen=True)
class Costs:
    """Bytes of disk are those that come in addition to what is there, which `texts` names."""

    texts: list[str]
    downloads: list[Download]
    trainings: list[Training]
    disk_at_peak: int
    disk_at_end: int


def estimate(config: dict[str, Any]) -> Costs:
    """What is still to be done and kept, in the current folder, for a completed configuration."""
    trainings = [*_translations(config), *_language_models(config)]
    peak, end = _disk(config, trainings, None)
    return Costs(list(_texts(config)), list(_downloads(config)), trainings, peak, end)


def check_disk(
    config: dict[str, Any], where: str, outputs: Collection[str | Path] | None = None
) -> None:
    """Raise `UserError` if the current folder's disk can't hold what is still to come.

    `outputs` are the files that are to be made, for whoever asked for a part of the configuration.
    """
    trainings = [*_translations(config), *_language_models(config)]
    needed, _ = _disk(config, trainings, outputs)
    free = shutil.disk_usage(Path.cwd()).free
    if needed > free:
        raise UserError(
            f"{where}: about {needed / GIB:.1f} GiB of disk are needed, but {Path.cwd()} has "
            f"{free / GIB:.1f} GiB free; fewer runs, seeds or keep_checkpoint need less"
        )


def _disk(
    config: dict[str, Any], trainings: list[Training], outputs: Collection[str | Path] | None
) -> tuple[int, int]:
    """Bytes at the most and at the end."""
    text, while_fetching = _text(config, outputs)
    for name, archives in _language_model_corpora(config):
        raw = Path("data", name, "raw")
        if not _is_planned(raw, outputs):
            continue
        size = training_lines(name) * RAW_BYTES_A_LINE
        text += max(0, size - _bytes_in(raw))
        fetching = 2 * size + sum(one.size or 0 for one in archives)
        while_fetching = max(while_fetching, fetching - _bytes_in(raw) - _bytes_in(_fetched(raw)))
    left = [each for each in trainings if not each.done and _is_to_train(each, outputs)]
    end = text + sum(training.disk_at_end for training in left)
    peak = text + sum(training.disk_at_peak for training in left)
    return max(peak, while_fetching), end


def _is_planned(folder: str | Path, outputs: Collection[str | Path] | None) -> bool:
    return outputs is None or any(Path(output).is_relative_to(folder) for output in outputs)


def _is_to_train(training: Training, outputs: Collection[str | Path] | None) -> bool:
    """Not where only its settings are written, or a finished model is used."""
    return outputs is None or any(
        Path(output) == training.folder / "model.pt" for output in outputs
    )


# --- Text ----------------------------------------------------------------------------------------


def _downloads(config: dict[str, Any]) -> Iterator[Download]:
    corpus = config["corpus"]
    if "download" in corpus and not _is_fetched(config):
        yield from _files_of(corpus["download"], corpus_splits(config)[2:])
    for _, archives in _language_model_corpora(config):
        yield from archives


def _is_fetched(config: dict[str, Any]) -> bool:
    """Whether all splits are there: a test set that is new in the configuration may not be."""
    raw, *_ = corpus_folders(config)
    splits = corpus_splits(config)
    return all(
        Path(raw, f"{split}.{side}").exists() for split in splits for side in languages(config)
    )


def _files_of(corpus: str, test_sets: list[str] | None = None) -> Iterator[Download]:
    sizes = download_sizes(corpus, test_sets)
    yield from (Download(name, size) for name, size in sizes.items())


def _language_model_corpora(config: dict[str, Any]) -> Iterator[tuple[str, list[Download]]]:
    """Those that are still to be fetched, each with its files."""
    for name in _language_model_downloads(config):
        if not Path("data", name, "raw", "provenance.json").exists():
            yield name, list(_files_of(name))


def _language_model_downloads(config: dict[str, Any]) -> list[str]:
    runs = config.get("language_models", {"runs": []})["runs"]
    names = dict.fromkeys(run["corpus"].get("download") for run in runs)
    return [name for name in names if name]


def _texts(config: dict[str, Any]) -> Iterator[str]:
    """What text is there already, in words."""
    _, clean, bpe = corpus_folders(config)
    there = {"raw": _is_fetched(config), "clean": _whole(clean, config)}
    forms = [form for form, done in {**there, "encoded": _whole(bpe, config)}.items() if done]
    if forms:
        yield f"{config['corpus']['name']} ({', '.join(forms)})"
    missing = dict(_language_model_corpora(config))
    yield from (
        f"{name} (raw)" for name in _language_model_downloads(config) if name not in missing
    )


def _whole(folder: str | Path, config: dict[str, Any]) -> bool:
    """Whether the training text, by far the largest, lies there on both sides."""
    return all(Path(folder, f"train.{side}").exists() for side in languages(config))


def _text(config: dict[str, Any], outputs: Collection[str | Path] | None) -> tuple[int, int]:
    """Bytes of the parallel text in all its forms, and while it is being fetched."""
    raw_folder, clean_folder, bpe_folder = map(Path, corpus_folders(config))
    corpus = config["corpus"]
    if "download" in corpus:
        raw = training_lines(corpus["download"]) * RAW_BYTES_A_PAIR
        archives = sum(one.size or 0 for one in _files_of(corpus["download"], []))
    elif "generate" in corpus:
        raw, archives = corpus["generate"]["pairs"] * RAW_BYTES_A_PAIR, 0
    else:
        paths = [Path(path) for path in user_files(corpus["files"])]
        raw, archives = sum(path.stat().st_size for path in paths if path.exists()), 0
    size, while_fetching = 0.0, 0
    if not _is_fetched(config) and _is_planned(raw_folder, outputs):
        # The archives stay until all is extracted and joined.
        while_fetching = (
            archives + 2 * raw - _bytes_in(raw_folder) - _bytes_in(_fetched(raw_folder))
        )
    for folder, share in ((raw_folder, 1.0), (clean_folder, CLEAN), (bpe_folder, ENCODED)):
        if not _whole(folder, config) and _is_planned(folder, outputs):
            size += max(0, share * raw - _bytes_in(folder, and_below=False))
    ids = TOKEN_IDS * _vocabularies(config, outputs) * raw
    size += max(0, ids - _bytes_in(bpe_folder / "token-ids"))
    return int(size), int(while_fetching)


def _vocabularies(config: dict[str, Any], outputs: Collection[str | Path] | None) -> int:
    """How many vocabularies, separate or shared, packed trainings still turn the text to ids of."""
    unfinished = {
        one.name.rsplit(" seed ")[0]
        for one in _translations(config)
        if not one.done and _is_to_train(one, outputs)
    }
    options = [training_options(config, run) for run in unfinished]
    packed = [each for each in options if each.get("training_loop") == "packed"]
    return len({bool(each.get("share_vocab")) for each in packed})


def _fetched(raw: Path) -> Path:
    """Where `fetch_corpus` keeps what it has downloaded until all is done."""
    return raw.with_name(f"{raw.name}.downloads")


def _bytes_in(folder: Path, *, and_below: bool = True) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a job that is running may delete it meanwhile
                total += os.stat(os.path.join(place, name)).st_size
        if not and_below:
            break
    return total


# --- Trainings -----------------------------------------------------------------------------------


def _translations(config: dict[str, Any]) -> Iterator[Training]:
    for run in config["translation"]["runs"]:
        options = training_options(config, run["name"])
        tables, at_work = _weights(options, config["bpe"]["merges"])
        models = 2 if config["translation"]["averaging"] else 1
        folder = Path("results", config["name"], "mt", run["name"])
        speed = _measured(folder) or (
            TOKENS_A_SECOND[options.get("training_loop", "stock")] * WEIGHTS_AT_WORK / at_work
        )
        hours_a_step = _tokens_a_step(options) / speed / 3600
        for seed in run["seeds"]:
            place = translation_folder(config, run["name"], seed)
            settings = translation_settings(config, run["name"], seed)
            there, step = _bytes_in(place), min(newest_step(place), options["train_steps"])
            end, peak = (
                (tables + at_work) * (kept * BYTES_A_WEIGHT_WITH_ADAM + models * BYTES_A_WEIGHT)
                for kept in _checkpoints(options)
            )
            yield Training(
                f"{run['name']} seed {seed}",
                place,
                _is_trained(place / "train.yaml", settings),
                (options["train_steps"] - step) * hours_a_step,
                max(0, end - there),
                max(0, peak - there),
                step,
            )


def _is_trained(written: Path, settings: dict[str, Any]) -> bool:
    """Whether the training is finished, and was one with these very settings, `written` by it."""
    if not written.with_name("record.json").exists() or not written.exists():
        return False
    return yaml.safe_load(written.read_text(encoding="utf-8")) == settings


def _checkpoints(options: dict[str, Any]) -> tuple[int, int]:
    """How many are kept at the end, and how many there are at the most before."""
    kept = options.get("keep_checkpoint", -1)
    if kept < 1:  # all of them
        saved = max(1, options["train_steps"] // options.get("save_checkpoint_steps", 5000))
        return saved, saved
    return kept, kept + 1  # the newest is saved before the oldest goes


def _weights(options: dict[str, Any], vocabulary: int) -> tuple[int, int]:
    """Weights of the input tables, and of all that a token is multiplied with."""
    width = options.get("hidden_size", 500)
    inner = options.get("transformer_ff", 2048)
    layers = options.get("layers", 2)
    stacks = layers * (12 * width**2 + 4 * width * inner)
    narrow = options.get("embedding_type", "standard") != "standard"
    if narrow:
        table_width = options.get("define_map_dim", 128)  # onmt_train's own default
    else:
        table_width = options.get("word_vec_size", width)
    tables = vocabulary * table_width * (1 if options.get("share_embeddings") else 2)
    return tables, stacks + vocabulary * width


def _tokens_a_step(options: dict[str, Any]) -> float:
    counts = options.get("accum_count", [1])
    count = counts[-1] if isinstance(counts, list) else counts
    batch = options.get("batch_size", 64) * count
    return batch if options.get("batch_type") == "tokens" else batch * TOKENS_A_SENTENCE


def _measured(folder: Path) -> float | None:
    """Source tokens a second of one GPU in a finished seed of this run, if there is one."""
    for path in sorted(folder.glob("seed*/record.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            speed = record["tokens_per_second"]["source"]  # of all its GPUs together
            gpus = sum(int(count) for count in re.findall(r"(\d+) x ", record["device"]))
        except (ValueError, KeyError, TypeError):
            continue
        if speed and gpus:  # that of a CPU says nothing of a GPU
            return speed / gpus
    return None


def _language_models(config: dict[str, Any]) -> Iterator[Training]:
    for run in config.get("language_models", {"runs": []})["runs"]:
        for seed in run["seeds"]:
            folder = language_model_folder(config, run["name"], seed)
            settings = language_model_settings(config, run["name"], seed)
            there = _bytes_in(folder)
            # model.pt stays too, and one checkpoint more is there while it is saved.
            end, peak = (
                (kept * BYTES_A_WEIGHT_WITH_ADAM + BYTES_A_WEIGHT) * _millions(run) * 10**6
                for kept in (LM_CHECKPOINTS, LM_CHECKPOINTS + 1)
            )
            yield Training(
                f"{run['name']} seed {seed}",
                folder,
                _is_trained(folder / "run.yaml", settings),
                _language_model_hours(run, settings),
                max(0, end - there),
                max(0, peak - there),
            )


def _language_model_hours(run: dict[str, Any], settings: dict[str, Any]) -> float | None:
    tokens = LM_TOKENS.get(run["corpus"].get("download", ""))
    speed = LM_TOKENS_A_SECOND.get(settings.get("model", ""))
    if tokens and speed and settings.get("epochs"):
        return settings["epochs"] * tokens / speed / 3600
    return None


def _millions(run: dict[str, Any]) -> int:
    """Weights that the row of the paper prints, 0 where nothing is known."""
    printed = find_row(run["paper"]).printed if "paper" in run else {}
    return round(float(printed.get("parameters", {}).get("total", 0)))

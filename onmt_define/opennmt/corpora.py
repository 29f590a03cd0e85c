"""The corpora of a training: their settings in `data`, and their texts, line by line.

OpenNMT-py itself reads as far as the shorter text of a corpus goes, and ignores a setting that it
doesn't know.
"""

import difflib
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import torch
import yaml

from onmt_define.errors import UserError
from onmt_define.opennmt import texts
from onmt_define.opennmt.packed_training.support import VALIDATION, is_packed

PATHS = ("path_src", "path_tgt", "path_align", "path_txt")
LARGEST_WEIGHT = 1_000_000


def require_settings(opt: Namespace) -> None:
    """Raise `UserError` for `data` that can't be corpora.

    Args:
        opt: options of the command, some of which a transform reads from its corpus.
    """
    try:
        corpora = yaml.safe_load(opt.data)
    except yaml.YAMLError as error:
        raise UserError(
            f"data is {opt.data}, expected names of corpora with path_src and path_tgt, without "
            "quotation marks in them"
        ) from error
    if not isinstance(corpora, dict) or not corpora:
        raise UserError(
            f"data is {corpora!r}, expected names of corpora with path_src and path_tgt"
        )
    for name, corpus in corpora.items():
        if not isinstance(corpus, dict) or not {"path_src", "path_txt"} & corpus.keys():
            raise UserError(f"data.{name} is {corpus!r}, expected path_src and path_tgt in it")
        _require_known_settings(f"data.{name}", corpus, set(vars(opt)))
        if getattr(opt, "model_task", None) == "seq2seq" and corpus.get("path_tgt") is None:
            # OpenNMT-py would train on the source as its own target.
            raise UserError(f"data.{name} has no path_tgt, expected one with model_task seq2seq")
        if getattr(opt, "model_task", None) == "lm" and corpus.get("path_tgt") is not None:
            # OpenNMT-py would take all corpora for what the last one is.
            raise UserError(f"data.{name} has a path_tgt, expected none with model_task lm")
    if corpora.keys() == {VALIDATION}:
        raise UserError("data has no corpus but valid, expected one to train on")


def _require_known_settings(where: str, corpus: dict[str, Any], options: set[str]) -> None:
    own = (*PATHS, "transforms", "weight")
    for setting, value in corpus.items():
        if setting not in {*own, *options}:
            nearest = difflib.get_close_matches(str(setting), own, n=1)
            meant = f", did you mean {nearest[0]}?" if nearest else ""
            raise UserError(f"{where} has an unknown setting {setting!r}{meant}")
        if setting in PATHS and value is not None and not isinstance(value, str):
            raise UserError(f"{where}.{setting} is {value!r}, expected the path of a text")
    weight = corpus.get("weight", 1)
    if weight is not None and not (type(weight) is int and 1 <= weight <= LARGEST_WEIGHT):
        raise UserError(
            f"{where}.weight is {weight!r}, expected a whole number from 1 to {LARGEST_WEIGHT:,}"
        )
    require_transforms(f"{where}.transforms", corpus.get("transforms"))


def require_transforms(option: str, names: Any) -> None:
    """Raise `UserError` unless OpenNMT-py has all these transforms."""
    from onmt.transforms import AVAILABLE_TRANSFORMS  # not before OpenNMT-py is loaded

    if not isinstance(names, list | None):
        raise UserError(f"{option} is {names!r}, expected a list of transforms")
    for name in names or []:
        if name not in AVAILABLE_TRANSFORMS:
            raise UserError(
                f"{option} has {name!r}, expected some of {', '.join(sorted(AVAILABLE_TRANSFORMS))}"
            )


def require_texts(opt: Namespace) -> None:
    """Read all texts through and raise `UserError` for a line that can't be used.

    Args:
        opt: options of a training or of building a vocabulary, that OpenNMT-py has checked.
    """
    if torch.distributed.is_initialized():
        return  # a rank, whose parent has looked
    writes_samples = getattr(opt, "dump_samples", opt.n_sample != 0)
    for name, corpus in opt.data.items():
        if writes_samples and "/" in str(name):
            raise UserError(f"data.{name} has a / in its name, expected none in a sample's file")
        if is_packed(opt) and name != VALIDATION:
            continue  # read through when its ids are made, once for all trainings
        if corpus.get("path_txt") is not None:
            texts.count_lines(f"data.{name}.path_txt", corpus["path_txt"])
            continue
        lines = _require_lines(opt, name, corpus)
        if name != VALIDATION:
            _require_enough_lines(opt, name, lines)


def _require_lines(opt: Namespace, name: str, corpus: dict[str, Any]) -> int:
    counts = {}
    for setting in ("path_src", "path_tgt", "path_align"):
        path = corpus[setting]
        if path is not None and path not in counts:
            checks = line_checks(opt, name, setting)
            counts[path] = texts.count_lines(f"data.{name}.{setting}", path, *checks)
    require_as_many_lines(f"data.{name}", counts)
    return counts[corpus["path_src"]]


def line_checks(opt: Namespace, name: str, setting: str) -> Iterator[texts.LineCheck]:
    """What every line of one text of the corpus `name` has to fulfil."""
    if setting == "path_align":
        yield texts.ALIGNMENT
        return
    if setting == "path_src":
        yield texts.with_features(opt.n_src_feats, opt.src_feats_defaults)
    if opt.skip_empty_level == "error":
        yield texts.NOT_BLANK
    # The packed loop leaves longer lines out, and a transform may do so as well.
    packed = is_packed(opt) and name != VALIDATION
    if getattr(opt, "position_encoding", False) and not opt.data[name]["transforms"] and not packed:
        has_start = setting == "path_tgt" or opt.data_task == "lm"
        yield texts.no_longer_than(texts.MOST_POSITIONS - has_start)


def require_as_many_lines(where: str, counts: dict[str, int]) -> None:
    """Raise `UserError` unless texts that belong together have the same number of lines."""
    (first, lines), *others = counts.items()
    for path, count in others:
        if count != lines:
            raise UserError(
                f"{where}: {first} has {lines:,} lines and {path} has {count:,}, expected as many: "
                "line by line they belong together"
            )


def _require_enough_lines(opt: Namespace, name: str, lines: int) -> None:
    """OpenNMT-py's readers take turns, each as many lines as there are readers."""
    workers, ranks = getattr(opt, "num_workers", 1), len(getattr(opt, "gpu_ranks", []))
    readers = max(1, workers) * max(1, ranks)
    least = readers * (readers - 1) + 1
    if lines < least:
        raise UserError(
            f"data.{name} has {lines:,} lines, expected at least {least:,} with num_workers "
            f"{workers} and {max(1, ranks)} processes, so that each reads some"
        )

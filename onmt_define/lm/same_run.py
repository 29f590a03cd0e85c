"""A training goes on from its own checkpoint only: same settings, same texts, same vocabulary."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.lm.data import SPLITS, build_vocabulary, checksum, require_text
from onmt_define.settings_difference import first_difference

CHANGEABLE_SETTINGS = {"epochs", "save_every", "evaluation_memory", "compile", *SPLITS}
"""Settings that may change before going on from a checkpoint; texts are compared by content, and
there can't be fewer epochs than are begun."""

EXPECTED = "expected the same, or another output folder"


def check_same_run(path: Path, checkpoint: Any, settings: dict[str, Any]) -> None:
    """Raise `UserError`, showing the difference, if a checkpoint was made otherwise.

    Reads the texts themselves: what the run's folder has made of its own is kept in a refusal.
    """
    check_same_settings(path, checkpoint, settings)
    saved = checkpoint["language_model"]
    for split in SPLITS:
        require_text(settings[split])
        if checksum(settings[split]) == saved["checksums"][split]:
            continue
        if split == "train" and (difference := _vocabulary_difference(saved, settings)):
            raise UserError(f"{path} was made with another vocabulary: {difference}; {EXPECTED}")
        raise UserError(
            f"{path} was made with another {split} text than {settings[split]}; expected the "
            "same text, or another output folder"
        )


def check_same_settings(path: Path, checkpoint: Any, settings: dict[str, Any]) -> None:
    """The part of `check_same_run` for which the texts needn't be there yet."""
    if not isinstance(checkpoint, dict) or "language_model" not in checkpoint:
        raise UserError(
            f"{path} is no checkpoint of `onmt_define lm train`, expected only its own there; "
            "move it, or choose another output folder"
        )
    saved = checkpoint["language_model"]
    if changed := first_difference(saved["settings"], settings, CHANGEABLE_SETTINGS):
        key, before, now = changed
        raise UserError(f"{path} was made with {key}: {before}, but the run says {now}; {EXPECTED}")
    place = saved["batches"]
    begun = place["epoch"] + (place["position"] > 0)
    if settings["epochs"] < begun:
        raise UserError(
            f"{path} is of epoch {begun}, but the run says epochs: {settings['epochs']}; expected "
            f"at least {begun}, or another output folder"
        )


def _vocabulary_difference(saved: dict[str, Any], settings: dict[str, Any]) -> str | None:
    limits = settings["min_count"], settings["vocabulary_size"]
    return _difference(saved["vocabulary"], build_vocabulary(settings["train"], *limits).tokens)


def _difference(before: list[str], now: list[str]) -> str | None:
    for index, (old, new) in enumerate(zip_longest(before, now)):
        if old != new:
            return (
                f"{len(before):,} token types, now {len(now):,}, and number {index:,} was {old!r}, "
                f"now {new!r}"
            )
    return None

"""A training goes on from its own checkpoint only: same settings, same texts, same vocabulary."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.lm.data import SPLITS, Corpus
from onmt_define.settings_difference import first_difference

CHANGEABLE_SETTINGS = {"epochs", "save_every", "evaluation_memory", "compile", *SPLITS}
"""Settings that may change before going on from a checkpoint; texts are compared by content."""


def check_same_run(
    path: Path, saved: dict[str, Any], settings: dict[str, Any], corpus: Corpus
) -> None:
    """Raise `UserError`, showing the difference, if a checkpoint was made otherwise."""
    expected = "expected the same, or another output folder"
    if changed := first_difference(saved["settings"], settings, CHANGEABLE_SETTINGS):
        key, before, now = changed
        raise UserError(f"{path} was made with {key}: {before}, but the run says {now}; {expected}")
    if difference := _difference(saved["vocabulary"], corpus.vocabulary.tokens):
        raise UserError(f"{path} was made with another vocabulary: {difference}; {expected}")
    for split in SPLITS:
        if corpus.checksums[split] != saved["checksums"][split]:
            raise UserError(
                f"{path} was made with another {split} text than {settings[split]}; expected the "
                "same text, or another output folder"
            )


def _difference(before: list[str], now: list[str]) -> str | None:
    for index, (old, new) in enumerate(zip_longest(before, now)):
        if old != new:
            return (
                f"{len(before):,} token types, now {len(now):,}, and number {index:,} was {old!r}, "
                f"now {new!r}"
            )
    return None

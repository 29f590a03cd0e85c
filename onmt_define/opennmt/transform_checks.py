"""Transforms of OpenNMT-py that lack what they work with, named before any text is read."""

import functools
from argparse import Namespace
from types import ModuleType
from typing import Any

from onmt_define.errors import UserError

NEEDED_OPTIONS = {
    "bpe": "src_subword_model",
    "sentencepiece": "src_subword_model",
    "fuzzymatch": "tm_path",
    "inlinetags": "tags_dictionary_path",
    "terminology": "termbase_path",
}


def check_transforms(opt: Namespace) -> None:
    """Raise `UserError` for a transform without the file that it needs."""
    for name in sorted(opt._all_transform):
        option = NEEDED_OPTIONS.get(name)
        if option and not getattr(opt, option, None):
            raise UserError(f"transforms has {name}, which needs {option}")


def patch_transforms(module: ModuleType) -> None:
    """Put in a sentence what keeps a transform of `onmt.transforms` from being made."""
    original = module.make_transforms

    @functools.wraps(original)
    def make_transforms(opts: Namespace, classes: dict[str, Any], vocabs: Any) -> Any:
        try:
            return original(opts, classes, vocabs)
        except (ImportError, ValueError, AssertionError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"transforms {', '.join(classes)} can't be made: {reason}") from error

    module.make_transforms = make_transforms  # type: ignore[attr-defined]

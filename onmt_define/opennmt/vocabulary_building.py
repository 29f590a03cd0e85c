"""What `onmt_build_vocab` is to do and to write, looked at before it counts words."""

import functools
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import IO, Any

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.opennmt.corpora import PATHS


def require_options(opt: Namespace) -> None:
    """Raise `UserError` for options that only this command has."""
    if 0 <= opt.n_sample < 2:
        raise UserError(f"n_sample is {opt.n_sample}, expected at least 2, or -1 for all")
    if opt.learn_subwords and opt.src_subword_type not in ("bpe", "sentencepiece"):
        raise UserError(
            f"learn_subwords is on with src_subword_type {opt.src_subword_type}, expected bpe or "
            "sentencepiece"
        )


def require_new_files(opt: Namespace) -> None:
    """Raise `UserError` for files that are in the way, or texts that would be overwritten.

    OpenNMT-py counts all words before it looks at the files that it is to write.
    """
    written = {"src_vocab": opt.src_vocab}
    if not opt.share_vocab:
        written["tgt_vocab"] = opt.tgt_vocab
    if len({os.path.abspath(path) for path in written.values()}) < len(written):
        raise UserError(
            f"src_vocab and tgt_vocab are both {opt.src_vocab}, expected two files, or share_vocab"
        )
    read = [path for corpus in opt.data.values() for path in map(corpus.get, PATHS) if path]
    for option, path in written.items():
        if not os.path.exists(path):
            continue
        if any(os.path.samefile(path, text) for text in read):
            raise UserError(f"{option} is {path}, a text of the corpora, expected another file")
        if not opt.overwrite:
            raise UserError(f"{option}: {path} exists, expected a new file, or -overwrite")


def patch(module: ModuleType) -> None:
    """Let `onmt_build_vocab` write no vocabulary without words."""
    original = module.build_vocab

    @functools.wraps(original)
    def build_vocab(*arguments: Any, **settings: Any) -> Any:
        counters = original(*arguments, **settings)
        if not all(counters[:2]):
            raise UserError(
                "data: no pair of lines is left to count words in, expected some that aren't blank "
                "and that the transforms keep"
            )
        return counters

    module.build_vocab = build_vocab  # type: ignore[attr-defined]
    module.open = _open_whole  # type: ignore[attr-defined]


@contextmanager
def _open_whole(path: str, mode: str = "r", **settings: Any) -> Iterator[IO[str]]:
    """In place of `open`: what is written is whole, or as it was before."""
    if mode != "w":
        with open(path, mode, **settings) as file:
            yield file
    else:
        with complete_or_absent(path) as temporary, open(temporary, mode, **settings) as file:
            yield file

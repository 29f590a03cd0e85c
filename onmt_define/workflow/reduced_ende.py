"""Gathers the public texts behind configs/reduced-ende.yaml into one English-German corpus.

WMT14's own texts have millions of pairs; these are what can be put together without them. What a
set holds, and in which form, stands in reduced_ende.yaml beside this module.
"""

import html
import lzma
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, zip_longest
from pathlib import Path

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.schema import load_yaml
from onmt_define.workflow.cleaning import detokenise

LANGUAGES = ("en", "de")
_SETS = Path(__file__).with_name("reduced_ende.yaml")

TextPair = tuple[str, str]


def gather(texts: str | Path, output: str | Path) -> dict[str, int]:
    """Write {train,valid,<test set>}.{en,de} to `output`; return the numbers of pairs.

    A training pair that came before is dropped, and so is one of which a side stands in the
    validation set or in a test set (letters and digits compared, in lower case). Every file is
    read as it is or, with the ending `.xz`, compressed. Raises `UserError` for a file that is
    missing or unreadable, and for two sides of different length.
    """
    texts, sets = Path(texts), load_yaml(_SETS)
    held_out = {"valid": sets["valid"], **sets["test_sets"]}
    evaluation = {name: list(_pairs(texts, held_out[name])) for name in held_out}
    seen = frozenset(
        _letters(side) for pairs in evaluation.values() for pair in pairs for side in pair
    )
    training = list(
        _new_pairs(chain.from_iterable(_pairs(texts, text) for text in sets["train"]), seen)
    )
    corpus = {"train": training, **evaluation}
    _write(Path(output), corpus)
    return {split: len(pairs) for split, pairs in corpus.items()}


def _new_pairs(pairs: Iterable[TextPair], held_out: frozenset[str]) -> Iterator[TextPair]:
    """Yield each pair once, without those that the held-out sets know a side of."""
    before: set[TextPair] = set()
    for pair in pairs:
        letters = tuple(_letters(side) for side in pair)
        if all(letters) and held_out.isdisjoint(letters) and pair not in before:
            before.add(pair)
            yield pair


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def _pairs(texts: Path, text: Mapping) -> Iterator[TextPair]:
    """Yield the pairs of one entry of reduced_ende.yaml as ordinary text."""
    if "columns" in text:
        yield from _columns(texts / text["columns"])
        return
    paths = [texts / text[side] for side in ("source", "target")]
    sides = [_lines(path) for path in paths]
    if text.get("tokenised"):
        sides = [
            detokenise(map(html.unescape, side), language)
            for side, language in zip(sides, LANGUAGES, strict=True)
        ]
    for pair in zip_longest(*sides):
        if None in pair:
            raise UserError(f"{paths[0]} and {paths[1]} have different numbers of lines")
        yield pair


def _columns(path: Path) -> Iterator[TextPair]:
    for number, line in enumerate(_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(f"{path}, line {number}: expected two texts with a tab between them")
        yield columns[0], columns[1]


def _lines(path: Path) -> Iterator[str]:
    with _open(path) as file:
        try:
            yield from (line.removesuffix("\n") for line in file)
        except (UnicodeDecodeError, lzma.LZMAError, EOFError) as error:
            raise UserError(f"{path} is not a whole file of UTF-8 text: {error}") from error


@contextmanager
def _open(path: Path) -> Iterator[Iterable[str]]:
    compressed = path.with_name(f"{path.name}.xz")
    opener = lzma.open if compressed.is_file() else open
    try:
        with opener(
            compressed if opener is lzma.open else path, "rt", encoding="utf-8", newline="\n"
        ) as file:
            yield file
    except OSError as error:
        raise UserError(
            f"{path} (or {compressed.name}) can't be read: {error.strerror}; its origin stands in "
            f"{_SETS.name}"
        ) from error


def _write(output: Path, corpus: Mapping[str, list[TextPair]]) -> None:
    """All files or none, so that a run never starts on a part of the corpus."""
    with ExitStack() as stack:
        for split, pairs in corpus.items():
            for side, language in enumerate(LANGUAGES):
                path = stack.enter_context(complete_or_absent(output / f"{split}.{language}"))
                path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")

"""Reading aligned text files, and taking in the user's own after every check has passed.

A line ends at "\\n" and nowhere else: other characters that some programs break lines at (form
feed, U+0085, U+2028, a carriage return inside a line) would shift the two sides against each other.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.opennmt.texts import FEATURE_SEPARATOR

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TEST_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # as in config.schema.yaml


@dataclass(frozen=True)
class Pair:
    """A source file and its target file, line by line each other's translation."""

    source: Path
    target: Path


def iterate_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines without their ends; "\\r\\n" is an end too, a leading byte order mark goes.

    Raises `UserError` for a file that can't be opened or isn't UTF-8, with the line's number.
    """
    with _open(path) as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(_BYTE_ORDER_MARK)
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {number}: byte {error.start + 1} is not UTF-8; "
                    "convert the file to UTF-8 text (uncompressed)"
                ) from error
            yield line.removesuffix("\n").removesuffix("\r")


def iterate_pairs(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """Yield aligned lines; raises `UserError` with both counts if the files differ in length."""
    for lines in zip_longest(iterate_lines(source), iterate_lines(target)):
        if None in lines:
            raise UserError(
                f"{source} has {count_lines(source):,} lines and {target} has "
                f"{count_lines(target):,}: line by line they must be each other's translation"
            )
        yield lines


def count_lines(path: str | Path) -> int:
    """Number of lines, a last one without "\\n" counted too; raises `UserError` if unreadable."""
    count, last = 0, b"\n"
    with _open(path) as file:
        while block := file.read(1 << 20):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def check_user_corpus(files: Mapping[str, Any]) -> dict[str, list[Pair]]:
    """Check the config's `files:` and all that they hold; return the file pairs of each split.

    `files` has `train`, `valid` and maybe `test_sets` (a mapping by name); each of them has
    `source` and `target`, a path or a list of paths that are joined in order. Blank lines are
    allowed, but not only those. Raises `UserError` for the first mistake: a key or file missing, an
    empty file, text that isn't UTF-8, OpenNMT's feature separator U+FFE8, sides of different
    length.
    """
    if not isinstance(files, Mapping):
        raise UserError("files: expected a mapping with the keys train, valid and test_sets")
    splits = {split: _file_pairs(files, split) for split in ("train", "valid")}
    for name, sides in (files.get("test_sets") or {}).items():
        if name in splits or not _TEST_SET_NAME.fullmatch(str(name)):
            raise UserError(
                f"files: test_sets: {name!r} can't name a test set: use letters, digits and ._-, "
                "but neither train nor valid"
            )
        splits[name] = _file_pairs({name: sides}, name)
    for pair in chain.from_iterable(splits.values()):
        _check_pair(pair)
    return splits


def import_user_files(
    files: Mapping[str, Any], source_language: str, target_language: str, output_dir: str | Path
) -> dict[str, int]:
    """Copy the user's files, normalised, to `output_dir`/{split}.{language}; return line counts.

    All files are checked first (see `check_user_corpus`); if any fails, nothing is written.
    Normalised: UTF-8 without byte order mark, every line ended by "\\n".
    """
    if source_language == target_language:
        raise UserError(
            f"source and target language are both {source_language!r}: they must differ"
        )
    splits = check_user_corpus(files)
    counts = {}
    with ExitStack() as all_files:
        for split, pairs in splits.items():
            for language, side in ((source_language, "source"), (target_language, "target")):
                final = Path(output_dir) / f"{split}.{language}"
                temporary = all_files.enter_context(complete_or_absent(final))
                counts[split] = _join_files([getattr(pair, side) for pair in pairs], temporary)
    return counts


@contextmanager
def _open(path: str | Path) -> Iterator[BinaryIO]:
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _file_pairs(files: Mapping[str, Any], split: str) -> list[Pair]:
    sides = files.get(split)
    if not isinstance(sides, Mapping) or not sides.get("source") or not sides.get("target"):
        raise UserError(
            f"files: {split} must have the keys source and target, each a file or a list"
        )
    sources, targets = _paths(sides["source"]), _paths(sides["target"])
    if len(sources) != len(targets):
        raise UserError(
            f"files: {split} lists {len(sources)} source files and {len(targets)} target files: "
            "they must come in pairs"
        )
    return [Pair(source, target) for source, target in zip(sources, targets, strict=True)]


def _paths(value: str | Sequence[str]) -> list[Path]:
    values = [value] if isinstance(value, str) else value
    return [Path(path).expanduser() for path in values]


def _check_pair(pair: Pair) -> None:
    for path in (pair.source, pair.target):
        if path.is_file() and path.stat().st_size == 0:
            raise UserError(f"{path} is empty: expected one sentence a line")
    has_text = False
    for number, lines in enumerate(iterate_pairs(pair.source, pair.target), start=1):
        has_text = has_text or all(line.strip() for line in lines)
        for path, line in zip((pair.source, pair.target), lines, strict=True):
            if FEATURE_SEPARATOR in line:
                raise UserError(
                    f"{path}, line {number} has the character U+FFE8 ({FEATURE_SEPARATOR}), which "
                    "OpenNMT-py takes for a feature separator: replace it, for instance by |"
                )
    if not has_text:
        raise UserError(
            f"{pair.source} and {pair.target} have text on both sides in none of their lines: "
            "expected one sentence a line"
        )


def _join_files(paths: Sequence[Path], output: Path) -> int:
    count = 0
    with open(output, "w", encoding="utf-8", newline="\n") as file:
        for line in chain.from_iterable(map(iterate_lines, paths)):
            file.write(f"{line}\n")
            count += 1
    return count

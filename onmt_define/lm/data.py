"""Texts of a language-modelling corpus as streams of token ids on disk.

Tokens are what stands between ASCII spaces and tabs; each line, a blank one too, ends in `<eos>`,
which counts as a token. Ids are ranks by frequency in the training text.
"""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent

EOS = "<eos>"
UNK = "<unk>"
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Vocabulary:
    """Token types in order of their ids, most frequent first."""

    tokens: list[str]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {token: index for index, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Corpus:
    """A vocabulary and, for each split, its int32 token ids, memory-mapped."""

    vocabulary: Vocabulary
    ids: dict[str, np.ndarray]
    checksums: dict[str, str]

    @property
    def token_counts(self) -> dict[str, int]:
        """Number of tokens of each split, `<eos>` included."""
        return {split: len(ids) for split, ids in self.ids.items()}


def require_text(path: str | Path) -> None:
    """Raise `UserError` where there is no file that could be read again and again."""
    if not Path(path).is_file():
        found = "is no file" if Path(path).exists() else "no such file"
        raise UserError(f"{path}: {found}, expected a text file")


def read_lines(path: str | Path) -> Iterator[list[str]]:
    """Yield the tokens of each line, `<eos>` appended.

    Raises:
        UserError: no such file, a line that isn't UTF-8, or a line that holds `<eos>` already.
    """
    require_text(path)
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8").removesuffix("\n").replace("\t", " ")
            except UnicodeDecodeError as error:
                place = f"{path}, line {number}, byte {error.start + 1}"
                raise UserError(f"{place}: not UTF-8, expected UTF-8 text") from None
            tokens = [token for token in text.split(" ") if token]
            if EOS in tokens:
                raise UserError(
                    f"{path}, line {number}: holds the token {EOS}, expected a text without it, "
                    "since it is appended to each line"
                )
            yield [*tokens, EOS]


def build_vocabulary(
    path: str | Path, min_count: int = 1, vocabulary_size: int | None = None
) -> Vocabulary:
    """Collect the token types of a training text by frequency, ties by first occurrence.

    Types seen less than `min_count` times, and the rarest beyond `vocabulary_size` types
    (`<eos>` and `<unk>` included), are read as `<unk>`. With either limit `<unk>` is always there.

    Raises:
        UserError: see `read_lines`; an empty text.
    """
    counts: Counter[str] = Counter()
    for tokens in read_lines(path):
        counts.update(tokens)
    if not counts:
        raise UserError(f"{path}: is empty, expected at least one line")
    if min_count > 1 or vocabulary_size is not None:
        counts = _limit(counts, min_count, vocabulary_size)
    return Vocabulary([token for token, _ in counts.most_common()])


def _limit(counts: Counter[str], min_count: int, vocabulary_size: int | None) -> Counter[str]:
    ordinary = [
        token
        for token, count in counts.most_common()
        if count >= min_count and token not in (EOS, UNK)
    ]
    if vocabulary_size is not None:
        ordinary = ordinary[: vocabulary_size - 2]
    known = {EOS, *ordinary}
    kept = Counter({token: count for token, count in counts.items() if token in known})
    kept[UNK] = counts.total() - kept.total()
    return kept


def encode(path: str | Path, vocabulary: Vocabulary) -> np.ndarray:
    """Turn a text into one int32 stream of token ids.

    Raises:
        UserError: see `read_lines`; an empty text; a token outside a vocabulary without `<unk>`.
    """
    ids, unknown = vocabulary.ids, vocabulary.ids.get(UNK)
    stream = array("i")
    for number, tokens in enumerate(read_lines(path), start=1):
        line = [ids.get(token, unknown) for token in tokens]
        if None in line:
            raise UserError(
                f"{path}, line {number}: the token {tokens[line.index(None)]!r} is not in the "
                f"training text, expected only tokens of it, since it holds no {UNK}; set "
                "min_count or vocabulary_size to make one"
            )
        stream.extend(line)
    if not stream:
        raise UserError(f"{path}: is empty, expected at least one line")
    return np.asarray(stream, dtype=np.int32)


def prepare_corpus(
    texts: dict[str, str | Path],
    folder: str | Path,
    min_count: int = 1,
    vocabulary_size: int | None = None,
) -> Corpus:
    """Encode the texts `{split: path}` into `folder`, or open what an earlier call left there.

    Files: `vocabulary.txt` (one token a line, in order of ids), `{split}.npy`, and `corpus.json`,
    written last, which says what they were made from; without it, when a text or an option has
    changed, or one of them can't be read, all are made anew.

    Raises:
        UserError: see `build_vocabulary` and `encode`; nothing is written then.
    """
    folder = Path(folder)
    for path in texts.values():
        require_text(path)
    source = {
        "min_count": min_count,
        "vocabulary_size": vocabulary_size,
        "sha256": {split: checksum(path) for split, path in texts.items()},
    }
    words, description = folder / "vocabulary.txt", folder / "corpus.json"
    try:
        made_of = json.loads(description.read_text("utf-8"))
        if made_of == {**source, "vocabulary": checksum(words)}:
            return open_corpus(folder)
    except (OSError, ValueError, EOFError):
        pass  # not there yet, or damaged
    vocabulary = build_vocabulary(texts["train"], min_count, vocabulary_size)
    streams = {split: encode(path, vocabulary) for split, path in texts.items()}
    description.unlink(missing_ok=True)
    _write(words, "".join(f"{token}\n" for token in vocabulary.tokens))
    for split, stream in streams.items():
        with (
            complete_or_absent(folder / f"{split}.npy") as temporary,
            open(temporary, "wb") as file,
        ):
            header = np.lib.format.header_data_from_array_1_0(stream)
            np.lib.format.write_array_header_1_0(file, header)
            file.write(stream.data)  # unlike np.save it says why it can't
    _write(description, json.dumps({**source, "vocabulary": checksum(words)}, indent=2) + "\n")
    return open_corpus(folder)


def open_corpus(folder: str | Path) -> Corpus:
    """Open what `prepare_corpus` wrote, without reading the token ids into memory."""
    folder = Path(folder)
    tokens = (folder / "vocabulary.txt").read_bytes().decode("utf-8").split("\n")[:-1]
    checksums = json.loads((folder / "corpus.json").read_text("utf-8"))["sha256"]
    ids = {split: np.load(folder / f"{split}.npy", mmap_mode="r") for split in checksums}
    return Corpus(Vocabulary(tokens), ids, checksums)


def checksum(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, text: str) -> None:
    with complete_or_absent(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))

"""Texts as token ids in memory-mapped files, made once and used by every later training.

A text becomes three files: `ids` (every token's id, in order), `offsets` (where each line begins,
one more entry than lines) and, written last, `complete`. Their folder is named after the text's
path, size and time of change and after the vocabulary, so another text gets other files.
"""

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from onmt_define.opennmt.texts import NOT_BLANK, LineCheck, count_lines
from onmt_define.progress_line import SECONDS_BETWEEN_LINES

LINES_AT_ONCE = 20_000


@dataclass(frozen=True)
class TokenFile:
    """One text: `ids[offsets[i]:offsets[i + 1]]` is line i, without start and end tokens."""

    ids: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each line."""
        return np.diff(self.offsets)


def open_token_file(
    option: str, text: str | Path, vocabulary: Any, folder: Path, log: Any, *checks: LineCheck
) -> TokenFile:
    """Map the ids of a text, after checking it and making them if no training has done so yet.

    Args:
        option: names the text in an error.
        text: UTF-8, a sentence a line, tokens between single spaces.
        vocabulary: OpenNMT-py's vocabulary of that side.
        folder: where the files are kept; several processes may share it.
        log: takes a line of progress.
        checks: what every line has to fulfil.

    Raises:
        UserError: a line that isn't UTF-8 or fails a check.
    """
    tokens = vocabulary.ids_to_tokens
    files = folder / _key(Path(text), tokens)
    files.mkdir(parents=True, exist_ok=True)
    with FileLock(files / ".lock"):
        if not (files / "complete").exists():
            count_lines(option, text, *checks)
            _encode(Path(text), tokens, vocabulary.default_id, files, log)
    dtype = np.min_scalar_type(len(tokens))
    ids = np.memmap(files / "ids", dtype, "r") if (files / "ids").stat().st_size else np.empty(0)
    token_file = TokenFile(ids, np.fromfile(files / "offsets", np.int64))
    # The ids may be those of a training that allowed blank lines.
    if NOT_BLANK in checks and not token_file.lengths.all():
        count_lines(option, text, NOT_BLANK)
    return token_file


def _key(text: Path, tokens: list[str]) -> str:
    state = text.stat()
    content = "\n".join([str(text.resolve()), str(state.st_size), str(state.st_mtime_ns), *tokens])
    return f"{text.name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _encode(text: Path, tokens: list[str], unknown: int, files: Path, log: Any) -> None:
    id_of = {token: index for index, token in enumerate(tokens)}
    dtype = np.min_scalar_type(len(tokens))
    lengths: list[int] = []
    shown = time.monotonic()
    with open(text, "rb") as source, open(files / "ids", "wb") as target:
        while lines := source.readlines(LINES_AT_ONCE * 100):
            encoded: list[int] = []
            for line in lines:
                words = _words(line)
                encoded += [id_of.get(word, unknown) for word in words]
                lengths.append(len(words))
            target.write(np.array(encoded, dtype).tobytes())
            if time.monotonic() - shown > SECONDS_BETWEEN_LINES:
                log(f"{text}: {len(lengths):,} lines turned into ids")
                shown = time.monotonic()
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    (files / "offsets").write_bytes(offsets.tobytes())
    (files / "complete").touch()


def _words(line: bytes) -> list[str]:
    decoded = line.decode("utf-8").strip()
    return decoded.split(" ") if decoded else []

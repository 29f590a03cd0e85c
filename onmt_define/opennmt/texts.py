"""Text files that a user gives the stock commands, read through once before they are used.

OpenNMT-py meets a byte that isn't UTF-8, or a line that doesn't fit, hours later and with a
traceback, in whichever process reads it. A pass over a gigabyte takes a few seconds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from onmt_define.errors import UserError

FEATURE_SEPARATOR = "\uffe8"  # OpenNMT-py takes it for the mark between a word and its features
MOST_POSITIONS = 5000
"""Length of OpenNMT-py's table of positions."""

BYTES_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class LineCheck:
    """What every line of a text has to fulfil.

    `problem` says what a line has or is and what is expected, or None where all is well; it is
    asked only where `may_fail` is true of the block of lines, which has to be fast.
    """

    problem: Callable[[str], str | None]
    may_fail: Callable[[bytes], bool] = lambda block: True


def count_lines(option: str, path: str | Path, *checks: LineCheck) -> int:
    """Lines of a text, also a last one without a line break, none of which is left unread.

    Args:
        option: names the text in an error.

    Raises:
        UserError: a line that isn't UTF-8 or fails a check, or a byte order mark.
    """
    lines = 0
    for block in _blocks(path):
        text = _decoded(block, f"{option}: {path}, line", lines + 1)
        if lines == 0 and text.startswith("\ufeff"):
            raise UserError(
                f"{option}: {path} begins with a byte order mark, which OpenNMT-py would take for "
                "a part of its first word, expected UTF-8 without it"
            )
        for check in checks:
            if check.may_fail(block):
                for number, line in enumerate(text.removesuffix("\n").split("\n"), start=lines + 1):
                    if problem := check.problem(line):
                        raise UserError(f"{option}: {path}, line {number} {problem}")
        lines += block.count(b"\n") + (not block.endswith(b"\n"))
    return lines


def _blocks(path: str | Path) -> Iterator[bytes]:
    """A text in pieces of whole lines."""
    with open(path, "rb") as file:
        while block := file.read(BYTES_AT_ONCE) + file.readline():
            yield block


def _decoded(block: bytes, place: str, first: int) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError as error:
        number = first + block.count(b"\n", 0, error.start)
        byte = error.start - block.rfind(b"\n", 0, error.start)
        raise UserError(
            f"{place} {number} isn't UTF-8 (its byte {byte} is 0x{block[error.start]:02x}), "
            "expected UTF-8"
        ) from error


def no_longer_than(most_tokens: int) -> LineCheck:
    """Lines that a table of positions has room for."""

    def problem(line: str) -> str | None:
        if len(line) > most_tokens and (tokens := len(line.strip().split(" "))) > most_tokens:
            return (
                f"has {tokens:,} tokens, expected at most {most_tokens:,}, as far as "
                "position_encoding goes"
            )
        return None

    def has_long_line(block: bytes) -> bool:
        # So many tokens take more bytes; from one line break to the last within reach.
        start = 0
        while len(block) - start > most_tokens:
            start = block.rfind(b"\n", start, start + most_tokens + 1) + 1
            if not start:
                return True
        return False

    return LineCheck(problem, has_long_line)


def with_features(features: int, defaults: str | None) -> LineCheck:
    """Lines of a source text with OpenNMT-py's `n_src_feats` and `src_feats_defaults`."""
    allowed = [{features}] if defaults is None else [{features}, {0}]

    def problem(line: str) -> str | None:
        if {word.count(FEATURE_SEPARATOR) for word in line.split(" ")} in allowed:
            return None
        if not features:
            return (
                f"has the character U+FFE8 ({FEATURE_SEPARATOR}), which OpenNMT-py takes for a "
                "feature separator, expected none with n_src_feats 0"
            )
        return (
            f"has a word with another number of features than n_src_feats {features}, expected "
            f"{FEATURE_SEPARATOR} and a feature that often at every word, or, with "
            "src_feats_defaults, at none of the line"
        )

    return LineCheck(problem, lambda block: features > 0 or FEATURE_SEPARATOR.encode() in block)


def _blank_problem(line: str) -> str | None:
    if line.strip():
        return None
    return "is blank, expected text in every line with skip_empty_level error"


def _alignment_problem(line: str) -> str | None:
    for pair in line.strip().split(" "):
        places = pair.split("-")
        if len(places) != 2 or not all(place.isdecimal() for place in places):
            return f"has {pair!r}, expected pairs of places of words, as 0-0 1-2"
    return None


NOT_BLANK = LineCheck(_blank_problem)
ALIGNMENT = LineCheck(_alignment_problem)


def require_vocabulary(option: str, path: str | Path) -> None:
    """Raise `UserError` unless OpenNMT-py would read each line of a vocabulary as it is meant."""
    count_lines(option, path)
    *lines, rest = Path(path).read_bytes().decode("utf-8").split("\n")
    if rest:
        raise UserError(
            f"{option}: {path} has no line break after its last line, without which OpenNMT-py "
            "leaves that line out"
        )
    first = lines[0].split(None, 1)
    has_counts = len(first) == 2 and first[1].isdigit()
    for number, line in enumerate(lines, start=1):
        parts = line.split(None, 1)
        if has_counts and not (len(parts) == 2 and parts[1].strip().isdecimal()):
            # OpenNMT-py's own command may write a token of white space.
            raise UserError(
                f"{option}: {path}, line {number} is {line!r}, expected a token, a tab and its "
                "count; where the token is white space, take it out of the texts"
            )
        if not has_counts and any(space in line for space in " \t\r"):
            raise UserError(
                f"{option}: {path}, line {number} is {line!r}, expected a token, a tab and its "
                "count in each line, or a token in each, and no carriage returns"
            )

"""What `onmt_translate` reads and writes: lines of byte-pair encoded tokens."""

from pathlib import Path

BPE_JOINT = "@@ "


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text, without their ends."""
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def decode_bpe(line: str) -> str:
    """Join subwords to words; a translation may also end in an unfinished word."""
    return f"{line} ".replace(BPE_JOINT, "").strip()

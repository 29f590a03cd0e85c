"""Vocabulary files as onmt_build_vocab writes them, for text that needs no transform."""

from collections import Counter
from pathlib import Path

from onmt_define.files import complete_or_absent
from onmt_define.opennmt.input_checks import require_text
from onmt_define.workflow.bpe import count_words


def build_vocabulary(
    source: str | Path,
    target: str | Path,
    source_vocabulary: str | Path,
    target_vocabulary: str | Path,
    *,
    shared: bool,
) -> None:
    """Count the subwords of the training text; `shared` writes the sum to both files.

    What is written is, byte for byte, what `onmt_build_vocab -n_sample -1` writes with one thread.

    Raises:
        UserError: for a text that isn't there or empty.
    """
    for option, path in (("source", source), ("target", target)):
        require_text(str(path), option)
    counts = [count_words(text) for text in (source, target)]
    if shared:
        counts = [counts[0] + counts[1]] * 2
    for words, path in zip(counts, (source_vocabulary, target_vocabulary), strict=True):
        _write(words, path)


def _write(words: Counter[str], path: str | Path) -> None:
    with complete_or_absent(path) as part, open(part, "w", encoding="utf-8") as file:
        file.writelines(f"{word}\t{count}\n" for word, count in words.most_common())

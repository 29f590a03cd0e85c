"""Byte-pair encoding with subword-nmt: the same codes, vocabularies and text as its own commands.

Its commands go through the text four times and segment it twice. Here the words are counted once;
codes and vocabularies come from the counts, and a word is segmented once in each process. Nothing
but the words of the corpus is ever in memory.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from subword_nmt.apply_bpe import BPE, read_vocabulary
from subword_nmt.learn_bpe import learn_bpe

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.workflow.ordered_map import ITEMS_AHEAD, map_in_order, process_pool
from onmt_define.workflow.progress import progress

CHARACTERS_PER_CHUNK = 1 << 20


def learn_joint_bpe(
    texts: Sequence[str | Path],
    codes: str | Path,
    vocabularies: Sequence[str | Path],
    merges: int,
) -> None:
    """Learn `merges` operations on all texts together, and each text's subwords with counts.

    The texts are tokenised, tokens joined by single spaces. What is written is, byte for byte, what
    `subword-nmt learn-joint-bpe-and-vocab` writes with one worker.

    Raises:
        UserError: if the texts have no two letters of one word to merge.
    """
    words = [count_words(text) for text in texts]
    with ExitStack() as all_files:
        codes_part = all_files.enter_context(complete_or_absent(codes))
        with open(codes_part, "w", encoding="utf-8") as file:
            joint = functools.reduce(lambda one, other: one + other, words)
            if any(len(word) > 1 and count > 1 for word, count in joint.items()):
                entries = [f"{word} {count}" for word, count in joint.items()]
                del joint
                learn_bpe(entries, file, merges, is_dict=True)
        if Path(codes_part).read_text(encoding="utf-8").count("\n") < 2:  # its first is a header
            raise UserError(
                f"subword-nmt learned nothing from {' and '.join(map(str, texts))}: expected more "
                "text, with words of several letters"
            )
        segmented = _Segmenter(codes_part)
        for counts, vocabulary in zip(words, vocabularies, strict=True):
            part = all_files.enter_context(complete_or_absent(vocabulary))
            subwords: Counter[str] = Counter()
            for word, count in counts.items():
                for subword in segmented.segment(word).split(" "):
                    subwords[subword] += count
            with open(part, "w", encoding="utf-8") as file:
                file.writelines(f"{word} {count}\n" for word, count in subwords.most_common())


def apply_bpe(
    text: str | Path,
    output: str | Path,
    *,
    codes: str | Path,
    vocabulary: str | Path,
    threshold: int,
    processes: int = 1,
) -> None:
    """Segment a tokenised text, tokens joined by single spaces, line by line.

    A subword that `vocabulary` counts less than `threshold` times is split further. The result is
    that of `subword-nmt apply-bpe --vocabulary-threshold`.
    """
    apply = functools.partial(_segment_chunk, str(codes), str(vocabulary), threshold)
    size = Path(text).stat().st_size
    with (
        complete_or_absent(output) as part,
        open(part, "w", encoding="utf-8", newline="\n") as file,
        process_pool(processes) as pool,
        progress(f"encoding {Path(text).name}", "MB", size) as advance,
    ):
        for read, encoded in map_in_order(
            apply, _chunks_of_lines(text), pool, ITEMS_AHEAD * processes
        ):
            file.write(encoded)
            advance(read)


def count_words(text: str | Path) -> Counter[str]:
    """Count what stands between the spaces of a text, in the order of first appearance."""
    counts: Counter[str] = Counter()
    for chunk in _chunks_of_lines(text):
        counts.update(chunk.replace("\n", " ").split(" "))
    del counts[""]
    return counts


def _chunks_of_lines(text: str | Path) -> Iterator[str]:
    with open(text, encoding="utf-8", newline="\n") as file:
        while lines := file.readlines(CHARACTERS_PER_CHUNK):
            yield "".join(lines)


class _Segmenter(dict[str, str]):
    """From a word to its subwords, joined by spaces; what was asked for is remembered."""

    def __init__(self, codes: str | Path, vocabulary: set[str] | None = None) -> None:
        with open(codes, encoding="utf-8") as file:
            self._bpe = BPE(file, vocab=vocabulary)

    def segment(self, word: str) -> str:
        """Without remembering it."""
        segmented = " ".join(self._bpe.segment_tokens([word]))
        self._bpe.cache.clear()  # of words too, and ours is enough
        return segmented

    def __missing__(self, word: str) -> str:
        segmented = self[word] = self.segment(word)
        return segmented


@functools.cache
def _segmenter(codes: str, vocabulary: str, threshold: int) -> _Segmenter:
    """One a process."""
    with open(vocabulary, encoding="utf-8") as file:
        return _Segmenter(codes, read_vocabulary(file, threshold))


def _segment_chunk(codes: str, vocabulary: str, threshold: int, chunk: str) -> tuple[int, str]:
    """Bytes read, and the encoded lines."""
    segmenter = _segmenter(codes, vocabulary, threshold)
    lines = chunk.split("\n")
    encoded = [
        " ".join(map(segmenter.__getitem__, line.split(" "))) if line else "" for line in lines
    ]
    return len(chunk.encode()), "\n".join(encoded)

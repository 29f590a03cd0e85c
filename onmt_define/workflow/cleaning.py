"""Raw corpus to tokenised corpus: Moses steps on every split, length filters on the training set.

The two sides are always read, filtered and written together, so they can't come apart.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sacremoses import MosesDetokenizer

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.workflow.moses import MosesTokeniser
from onmt_define.workflow.ordered_map import ITEMS_AHEAD, chunks, map_in_order, process_pool
from onmt_define.workflow.parallel_text import count_lines, iterate_pairs
from onmt_define.workflow.progress import progress

LINES_PER_CHUNK = 2000


@dataclass(frozen=True)
class CleaningSettings:
    """What cleaning does; the two limits, in tokens, are for the training set only."""

    source_language: str
    target_language: str
    max_tokens: int
    max_length_ratio: float  # longer side to shorter
    aggressive_dashes: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UserError(f"max_tokens is {self.max_tokens}, expected at least 1")
        if not self.max_length_ratio >= 1:
            raise UserError(f"max_length_ratio is {self.max_length_ratio}, expected at least 1")


@dataclass(frozen=True)
class _CleanChunk:
    sources: list[str]
    targets: list[str]
    dropped: Counter[str]


def clean_corpus(
    input_dir: str | Path,
    output_dir: str | Path,
    splits: Sequence[str],
    settings: CleaningSettings,
    threads: int = 1,
) -> dict[str, dict]:
    """Clean {split}.{language} of `input_dir` into `output_dir`, and {split}.counts.json beside it.

    The split `train` is filtered; every other keeps all its lines, blank ones too. Returns what
    they hold: for each split the number of pairs, of pairs kept, and of pairs dropped by
    reason (`empty`, `too_long`, `length_ratio`). Raises `UserError` if no training pair is left.
    """
    counts = {}
    with process_pool(threads) as pool:
        for split in splits:
            counts[split] = _clean_split(
                Path(input_dir), Path(output_dir), split, settings, pool, ITEMS_AHEAD * threads
            )
            with complete_or_absent(Path(output_dir) / f"{split}.counts.json") as path:
                path.write_text(json.dumps(counts[split], indent=2) + "\n", encoding="utf-8")
    return counts


def detokenise(lines: Iterable[str], language: str) -> Iterator[str]:
    """Yield each tokenised line as ordinary text of `language`, aggressive dashes joined again.

    Entities such as `&quot;` are left as they are, since cleaning writes none.
    """
    detokenizer = MosesDetokenizer(lang=language)
    for line in lines:
        yield detokenizer.detokenize(line.split(), unescape=False)


def _clean_split(
    input_dir: Path,
    output_dir: Path,
    split: str,
    settings: CleaningSettings,
    pool: Executor | None,
    chunks_ahead: int,
) -> dict:
    languages = (settings.source_language, settings.target_language)
    inputs = [input_dir / f"{split}.{language}" for language in languages]
    pairs, kept = count_lines(inputs[0]), 0
    dropped: Counter[str] = Counter()
    clean = functools.partial(clean_chunk, settings, split == "train")
    with ExitStack() as stack:
        paths = [
            stack.enter_context(complete_or_absent(output_dir / f"{split}.{language}"))
            for language in languages
        ]
        source_file, target_file = [
            stack.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in paths
        ]
        advance = stack.enter_context(progress(f"cleaning {split}", "pairs", pairs))
        pairs_in_chunks = chunks(iterate_pairs(*inputs), LINES_PER_CHUNK)
        for chunk in map_in_order(clean, pairs_in_chunks, pool, chunks_ahead):
            source_file.writelines(f"{line}\n" for line in chunk.sources)
            target_file.writelines(f"{line}\n" for line in chunk.targets)
            kept += len(chunk.sources)
            dropped += chunk.dropped
            advance(len(chunk.sources) + chunk.dropped.total())
        if split == "train" and not kept:
            raise UserError(_nothing_left(inputs, dropped, settings))
    return {"pairs": pairs, "kept": kept, "dropped": dict(dropped)}


def clean_chunk(
    settings: CleaningSettings, filtered: bool, pairs: Sequence[tuple[str, str]]
) -> _CleanChunk:
    """Tokenise the pairs and, if `filtered`, drop the empty, the long and the lopsided ones."""
    tokenise_source = _tokeniser(settings.source_language, settings.aggressive_dashes)
    tokenise_target = _tokeniser(settings.target_language, settings.aggressive_dashes)
    chunk = _CleanChunk([], [], Counter())
    for raw_source, raw_target in pairs:
        source, target = tokenise_source(raw_source), tokenise_target(raw_target)
        reason = _why_drop(source, target, settings) if filtered else None
        if reason:
            chunk.dropped[reason] += 1
        else:
            chunk.sources.append(source)
            chunk.targets.append(target)
    return chunk


@functools.cache
def _tokeniser(language: str, aggressive_dashes: bool) -> MosesTokeniser:
    """One a process and language: its patterns take a while to compile."""
    return MosesTokeniser(language, aggressive_dashes)


def _why_drop(source: str, target: str, settings: CleaningSettings) -> str | None:
    if not source or not target:
        return "empty"
    shorter, longer = sorted((source.count(" ") + 1, target.count(" ") + 1))
    if longer > settings.max_tokens:
        return "too_long"
    if longer > settings.max_length_ratio * shorter:
        return "length_ratio"
    return None


def _nothing_left(inputs: Sequence[Path], dropped: Counter[str], settings: CleaningSettings) -> str:
    return (
        f"cleaning leaves none of the {dropped.total():,} pairs of {inputs[0]} and {inputs[1]}: "
        f"{dropped['empty']:,} have an empty side, {dropped['too_long']:,} are longer than "
        f"{settings.max_tokens} tokens, {dropped['length_ratio']:,} have one side more than "
        f"{settings.max_length_ratio} times as long as the other"
    )

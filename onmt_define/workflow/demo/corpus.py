"""The demo's corpus: distinct sentences of the grammar, split and written to files."""

from pathlib import Path

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.workflow.demo.grammar import Draw, Grammar
from onmt_define.workflow.demo.language import Pair

# --- The corpus ----------------------------------------------------------------------------------

SUFFIXES = ("en", "de")


def generate_corpus(
    pairs: int = 20000, valid: int = 500, test: int = 500, seed: int = 1
) -> dict[str, list[Pair]]:
    """Return the splits "train" (`pairs` sentences), "valid" and "test", the same for a seed.

    No sentence occurs twice on either side, within a split or across them. Raises `UserError` for
    a size below one.
    """
    sizes = {"train": pairs, "valid": valid, "test": test}
    for split, size in sizes.items():
        if size < 1:
            raise UserError(
                f"the {split} split is to have {size} sentence pairs, expected at least 1"
            )
    draw = Draw(seed)
    sentences = _distinct_sentences(Grammar(draw), sum(sizes.values()))
    # Later draws are rarer, since common ones are taken: every split gets its share of them.
    draw.shuffle(sentences)
    rest = iter(sentences)
    return {split: [next(rest) for _ in range(size)] for split, size in sizes.items()}


def _distinct_sentences(grammar: Grammar, count: int) -> list[Pair]:
    seen: tuple[set[str], set[str]] = (set(), set())
    sentences: list[Pair] = []
    while len(sentences) < count:
        pair = grammar.sentence()
        if any(text in side for text, side in zip(pair, seen, strict=True)):
            continue
        for text, side in zip(pair, seen, strict=True):
            side.add(text)
        sentences.append(pair)
    return sentences


def write_corpus(folder: str | Path, corpus: dict[str, list[Pair]]) -> None:
    """Write `folder`/{split}.{en,de}, one sentence a line; each file is complete or absent."""
    for split, sentences in corpus.items():
        for side, language in enumerate(SUFFIXES):
            with complete_or_absent(Path(folder) / f"{split}.{language}") as path:
                lines = (pair[side] + "\n" for pair in sentences)
                path.write_text("".join(lines), encoding="utf-8", newline="\n")

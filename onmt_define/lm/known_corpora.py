"""Sizes that the usual corpora must have, so that perplexities can be compared with others'."""

from onmt_define.errors import UserError
from onmt_define.lm.data import Corpus

# Tokens of training, validation and test text, `<eos>` included.
TOKENS = {
    "ptb": (929_589, 73_760, 82_430),
    "wikitext-2": (2_088_628, 217_646, 245_569),
    "wikitext-103": (103_227_021, 217_646, 245_569),
}


def check_known_corpus(name: str, corpus: Corpus) -> None:
    """Raise `UserError` if a corpus of a known name has another number of tokens."""
    for (split, found), expected in zip(
        corpus.token_counts.items(), TOKENS.get(name, corpus.token_counts.values()), strict=True
    ):
        if found != expected:
            raise UserError(
                f"the {split} text of corpus {name} has {found:,} tokens, expected {expected:,}; "
                "give another text another name"
            )

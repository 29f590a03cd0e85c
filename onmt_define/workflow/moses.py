"""Moses punctuation normalisation and tokenisation through sacremoses.

No character is written as an XML entity (`&quot;` and the like): these serve Moses's own decoder.
"""

import re

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from onmt_define.opennmt.texts import FEATURE_SEPARATOR

# Control characters and the line and paragraph separators, which some program may break lines at.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Invisible and without width: soft hyphen, zero-width space, word joiner, text direction, BOM.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")
_LOOKS_LIKE_SEPARATOR = "\u2502"  # what Unicode calls the same sign in ordinary width


class MosesTokeniser:
    """One line of raw text to tokens of one language, joined by single spaces.

    Control characters, U+2028, U+0085 and every kind of space become a plain space, invisible
    characters vanish, and OpenNMT-py's feature separator U+FFE8 becomes a box-drawing line.
    """

    def __init__(self, language: str, aggressive_dashes: bool = False) -> None:
        normaliser = MosesPunctNormalizer(lang=language)
        self._rules = [
            (_needed_by(rule), re.compile(rule).sub, new) for rule, new in normaliser.substitutions
        ]
        self._tokenizer = _Tokenizer(language)
        self._aggressive_dashes = aggressive_dashes

    def __call__(self, line: str) -> str:
        """The tokenised line; empty if there is nothing to see in it."""
        text = _INVISIBLE.sub("", _CONTROL.sub(" ", line))
        text = text.replace(FEATURE_SEPARATOR, _LOOKS_LIKE_SEPARATOR)
        for needed, substitute, new in self._rules:
            if needed in text:
                text = substitute(new, text)
        return self._tokenizer.tokenize(
            text.strip(),
            aggressive_dash_splits=self._aggressive_dashes,
            return_str=True,
            escape=False,
        )


def _needed_by(rule: str) -> str:
    """What a line must hold for a rule of the normaliser to change it, "" if that isn't known.

    Looking for that is ten times as fast as the rule, and most rules are for rare signs.
    """
    if rule == " +":
        return "  "
    without_groups = re.sub(r"(?<!\\)\(.*?\)", "", rule)
    signs = [sign for sign in without_groups if not sign.isascii() or sign in "()%:;'`\"\r"]
    return signs[0] if signs else ""


class _Tokenizer(MosesTokenizer):
    """sacremoses's own, with shorter ways to the same result where its cost is highest."""

    _LOWER = frozenset(MosesTokenizer.IsLower)
    _ALPHA = frozenset(MosesTokenizer.IsAlpha)

    def islower(self, text: str) -> bool:
        return self._LOWER.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self._ALPHA.isdisjoint(text)

    def handles_nonbreaking_prefixes(self, text: str) -> str:
        *words, last = text.split() or [""]
        if any(word.endswith(".") for word in words):
            return super().handles_nonbreaking_prefixes(text)
        return " ".join([*words, super().handles_nonbreaking_prefixes(last)])

"""Scores translations with sacrebleu: BLEU with bootstrap interval, chrF, full signatures."""

import json
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent

BOOTSTRAP_SAMPLES = 1000


def score(
    hypothesis: str | Path, reference: str | Path, output: str | Path, *, test_set: str
) -> None:
    """Write BLEU, its 95 % bootstrap interval, chrF and both signatures as JSON.

    Both files are detokenised text; BLEU uses sacrebleu's defaults (mixed case, tokenizer 13a).

    Raises:
        UserError: if the files differ in their number of lines.
    """
    translations, references = _lines(hypothesis), _lines(reference)
    if len(translations) != len(references):
        raise UserError(
            f"{hypothesis} has {len(translations)} lines, but {reference} has {len(references)}; "
            "expected one translation for each reference"
        )
    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(translations, [references])
    chrf_score = chrf.corpus_score(translations, [references])
    result = {
        "test_set": test_set,
        "lines": len(references),
        "BLEU": round(bleu_score.score, 4),
        "signature": str(bleu.get_signature()),
        "interval": _bootstrap_interval(translations, references),
        "chrF": round(chrf_score.score, 4),
        "chrF_signature": str(chrf.get_signature()),
    }
    with complete_or_absent(output) as temporary:
        temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")


def _bootstrap_interval(translations: list[str], references: list[str]) -> list[float]:
    # A metric object of its own: resampling would add itself to the signature of the plain score.
    resampled = BLEU().corpus_score(translations, [references], n_bootstrap=BOOTSTRAP_SAMPLES)
    return [round(resampled._mean + sign * resampled._ci, 4) for sign in (-1, 1)]


def _lines(path: str | Path) -> list[str]:
    with open(path, encoding="utf-8", newline="\n") as stream:
        return stream.read().removesuffix("\n").split("\n")

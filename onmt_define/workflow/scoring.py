"""Scores translations with sacrebleu: BLEU, chrF, intervals, and tests against a baseline."""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent

BOOTSTRAP_SAMPLES = 1000


@dataclass(frozen=True)
class Baseline:
    """The translations that others are compared with, and the run and seed they are of."""

    hypothesis: str | Path
    run: str
    seed: int


def score(
    hypothesis: str | Path,
    reference: str | Path,
    output: str | Path,
    *,
    test_set: str,
    baseline: Baseline | None = None,
    source: str | Path | None = None,
    comet: str | None = None,
) -> None:
    """Write BLEU and chrF with 95 % bootstrap intervals and signatures as JSON.

    All files are detokenised text; the metrics have sacrebleu's defaults (BLEU: mixed case,
    tokenizer 13a). With a `baseline` there are also, under that key, the difference to its BLEU and
    chrF and the p-value of a paired bootstrap test of each (Koehn, 2004). `comet` names a model of
    the package COMET (unbabel-comet), which scores with the `source` text.

    Raises:
        UserError: if the files differ in their number of lines, or COMET is wanted and not there.
    """
    translations, references = _lines(hypothesis), _lines(reference)
    _check_length(hypothesis, translations, reference, references)
    bleu, bleu_interval, bleu_signature = _scored(BLEU, translations, references)
    chrf, chrf_interval, chrf_signature = _scored(CHRF, translations, references)
    result = {
        "test_set": test_set,
        "lines": len(references),
        "BLEU": bleu,
        "signature": bleu_signature,
        "interval": bleu_interval,
        "chrF": chrf,
        "chrF_signature": chrf_signature,
        "chrF_interval": chrf_interval,
    }
    if baseline:
        others = _lines(baseline.hypothesis)
        _check_length(baseline.hypothesis, others, reference, references)
        compared = _compared(translations, others, references)
        result["baseline"] = {"run": baseline.run, "seed": baseline.seed, **compared}
    if comet:
        assert source is not None
        sources = _lines(source)
        _check_length(hypothesis, translations, source, sources)
        result["COMET"] = {
            "model": comet,
            "score": _comet(comet, sources, translations, references),
        }
    with complete_or_absent(output) as temporary:
        temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")


def require_comet(where: str) -> None:
    """Raise `UserError` if the package COMET, which only some users want, isn't installed."""
    try:
        found = importlib.util.find_spec("comet")
    except ValueError:  # what a blocked import says
        found = None
    if found is None:
        raise UserError(
            f"{where}: COMET isn't installed; `pip install unbabel-comet`, or leave this key out"
        )


def _scored(
    metric: type[BLEU] | type[CHRF], translations: Sequence[str], references: Sequence[str]
) -> tuple[float, list[float], str]:
    """Score, its interval and the signature."""
    plain = metric()
    points = plain.corpus_score(translations, [references]).score
    # A metric object of its own: resampling would add itself to the signature of the plain score.
    resampled = metric().corpus_score(translations, [references], n_bootstrap=BOOTSTRAP_SAMPLES)
    interval = [round(float(resampled._mean + sign * resampled._ci), 4) for sign in (-1, 1)]
    return round(float(points), 4), interval, str(plain.get_signature())


def _compared(
    translations: Sequence[str], others: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    test = PairedTest(
        [("baseline", others), ("run", translations)],
        {"BLEU": BLEU(), "chrF": CHRF()},
        [references],
        test_type="bs",
        n_samples=BOOTSTRAP_SAMPLES,
    )
    signatures, scores = test()
    compared: dict[str, Any] = {"test": "paired bootstrap", "samples": BOOTSTRAP_SAMPLES}
    for metric, label in (("BLEU", "BLEU"), ("chrF", "chrF2")):
        ours, theirs = scores[label][1], scores[label][0]
        difference = float(ours.score - theirs.score)
        compared[metric] = {
            "difference": round(difference, 4),
            # Of equal scores sacrebleu says the smallest p-value that there is.
            "p_value": round(float(ours.p_value), 4) if difference else 1.0,
            "signature": str(signatures[label]),
        }
    return compared


def _comet(
    name: str, sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> float:
    require_comet(f"COMET model {name}")
    from comet import download_model, load_from_checkpoint

    model = load_from_checkpoint(download_model(name))
    data = [
        {"src": source, "mt": translation, "ref": reference}
        for source, translation, reference in zip(sources, translations, references, strict=True)
    ]
    return round(float(model.predict(data, gpus=0).system_score), 4)


def _check_length(
    hypothesis: str | Path, translations: Sequence[str], reference: str | Path, lines: Sequence[str]
) -> None:
    if len(translations) != len(lines):
        raise UserError(
            f"{hypothesis} has {len(translations)} lines, but {reference} has {len(lines)}; "
            "expected one translation for each"
        )


def _lines(path: str | Path) -> list[str]:
    with open(path, encoding="utf-8", newline="\n") as stream:
        return stream.read().removesuffix("\n").split("\n")

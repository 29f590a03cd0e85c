"""Scores a model before and after compressing: perplexity of a text, or BLEU of translations."""

import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from onmt_define.errors import UserError
from onmt_define.trained_models import OpenNMTModel, read_model


def check_files(model: str | Path, files: list[str]) -> None:
    """Raise `UserError` unless `files` is what a model of this kind is scored on."""
    for file in files:
        if not Path(file).is_file():
            raise UserError(f"--score: there is no file {file}")
    if isinstance(read_model(model), OpenNMTModel):
        if len(files) != 2:
            raise UserError(
                f"--score names {len(files)} file, expected a source and its reference "
                f"for the translation model {model}"
            )
        source, reference = map(_lines, files)
        if len(source) != len(reference):
            raise UserError(
                f"--score: {files[0]} has {len(source)} lines, but {files[1]} has "
                f"{len(reference)}, expected as many"
            )
    elif len(files) != 1:
        raise UserError(
            f"--score names {len(files)} files, expected one text for the language model {model}"
        )


def score(before: str | Path, after: str | Path, files: list[str]) -> dict[str, Any]:
    """Score two models on the same files, which `check_files` found fit.

    BLEU compares tokens as they stand in the files, those of byte-pair encoding joined. A score
    that is not finite is None.
    """
    metric, rate = ("BLEU", _bleu) if len(files) == 2 else ("perplexity", _perplexity)
    values, seconds = {}, {}
    for name, model in (("before", before), ("after", after)):
        started = time.monotonic()
        value = rate(model, *files)
        values[name] = value if math.isfinite(value) else None
        seconds[name] = time.monotonic() - started
    return {"metric": metric, "files": files, **values, "seconds": seconds}


def _perplexity(model: str | Path, text: str) -> float:
    from onmt_define.lm.evaluation import evaluate_text

    return evaluate_text(model, text)["perplexity"]


def _bleu(model: str | Path, source: str, reference: str) -> float:
    from sacrebleu.metrics import BLEU

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "translations"
        command = (sys.executable, "-m", "onmt_define.opennmt", "translate", "-model", str(model))
        finished = subprocess.run(
            [*command, "-src", source, "-output", str(output)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if finished.returncode:
            last = (finished.stdout.strip().splitlines() or ["no message"])[-1]
            raise UserError(f"translating {source} with {model} failed: {last}")
        translations = _whole_words(output)
    bleu = BLEU(tokenize="none", force=True)
    return bleu.corpus_score(translations, [_whole_words(reference)]).score


def _whole_words(path: str | Path) -> list[str]:
    return [f"{line} ".replace("@@ ", "").strip() for line in _lines(path)]


def _lines(path: str | Path) -> list[str]:
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")

"""Scores a model before and after compressing: perplexity of a text, or BLEU of translations.

Each is timed as well, without reading the model: Table 5's milliseconds per batch.
"""

import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics import BLEU

from onmt_define.errors import UserError
from onmt_define.lm.data import EOS, encode
from onmt_define.lm.evaluation import CHUNK, load_model, perplexity
from onmt_define.opennmt.translations import decode_bpe, read_lines
from onmt_define.trained_models import OpenNMTModel, read_model

SENTENCES_A_BATCH = 30


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
        source, reference = map(read_lines, files)
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
    that is not finite is None. A GPU is used if there is one.
    """
    if len(files) == 2:
        metric, rate, batch = "BLEU", _bleu, f"{SENTENCES_A_BATCH} sentences"
    else:
        metric, rate, batch = "perplexity", _perplexity, f"{CHUNK} tokens"
    values, seconds, milliseconds = {}, {}, {}
    for name, model in (("before", before), ("after", after)):
        started = time.monotonic()
        value, duration = rate(model, *files)
        milliseconds[name] = duration if math.isfinite(duration) else None
        values[name] = value if math.isfinite(value) else None
        seconds[name] = time.monotonic() - started
    return {
        "metric": metric,
        "files": files,
        **values,
        "seconds": seconds,
        "ms_per_batch": milliseconds,
        "batch": batch,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
    }


def _perplexity(path: str | Path, text: str) -> tuple[float, float]:
    """Perplexity, and milliseconds for `CHUNK` tokens."""
    model, settings, vocabulary = load_model(path)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    ids, eos = encode(text, vocabulary), vocabulary.ids[EOS]
    memory = settings.get("evaluation_memory")
    perplexity(model, ids[:CHUNK], eos, memory=memory)  # a factorised layer computes its table now
    started = time.perf_counter()
    value = perplexity(model, ids, eos, memory=memory)
    return value, 1e3 * (time.perf_counter() - started) / math.ceil(len(ids) / CHUNK)


def _bleu(model: str | Path, source: str, reference: str) -> tuple[float, float]:
    """BLEU, and milliseconds for `SENTENCES_A_BATCH` sentences."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "translations"
        command = (sys.executable, "-m", "onmt_define.opennmt", "translate", "-model", str(model))
        options = ("-batch_size", str(SENTENCES_A_BATCH), "-report_time")
        device = ("-gpu", "0") if torch.cuda.is_available() else ()
        finished = subprocess.run(
            [*command, "-src", str(source), "-output", str(output), *options, *device],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if finished.returncode:
            last = (finished.stdout.strip().splitlines() or ["no message"])[-1]
            raise UserError(f"translating {source} with {model} failed: {last}")
        translations = [decode_bpe(line) for line in read_lines(output)]
    bleu = BLEU(tokenize="none", force=True)
    references = [decode_bpe(line) for line in read_lines(reference)]
    value = bleu.corpus_score(translations, [references]).score
    return value, SENTENCES_A_BATCH * _milliseconds_a_sentence(finished.stdout)


def _milliseconds_a_sentence(printed: str) -> float:
    """What OpenNMT-py's `-report_time` says; NaN if it says nothing, as of no sentence at all."""
    found = re.search(r"Average translation time \(ms\): ([\d.]+)", printed)
    return float(found[1]) if found else math.nan

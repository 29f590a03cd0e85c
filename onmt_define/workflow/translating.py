"""Translates a test set with a trained model, back to plain text."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.opennmt.translations import decode_bpe, read_lines
from onmt_define.schema import load_yaml
from onmt_define.workflow.cleaning import detokenise
from onmt_define.workflow.gpus import visible_gpus
from onmt_define.workflow.leases import lease


def translate(
    model: str | Path,
    source: str | Path,
    output: str | Path,
    *,
    language: str,
    decoding_path: str | Path,
    gpus: int,
    log_path: str | Path,
) -> None:
    """Translate a byte-pair encoded file into detokenised text, line by line.

    Args:
        model: an OpenNMT-py checkpoint.
        source: byte-pair encoded source side.
        output: one detokenised translation for each source line.
        language: two-letter code of the target language.
        decoding_path: YAML of OpenNMT-py translation options.
        gpus: 1 to use a GPU where one is visible, 0 for the CPU.
        log_path: OpenNMT-py's own output is written here.

    Raises:
        UserError: if OpenNMT-py fails or returns another number of lines.
    """
    lines = len(read_lines(source))
    encoded = _run_opennmt(model, source, decoding_path, gpus, log_path)
    if len(encoded) != lines:
        raise UserError(
            f"{model} gave {len(encoded)} translations for {lines} lines; see {log_path}"
        )
    translations = detokenise((decode_bpe(line) for line in encoded), language)
    with complete_or_absent(output) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")


def _run_opennmt(
    model: str | Path,
    source: str | Path,
    decoding_path: str | Path,
    gpus: int,
    log_path: str | Path,
) -> list[str]:
    use_gpu = gpus > 0 and bool(visible_gpus())
    job = f"translate {Path(model).parent.parent.name}"
    with (
        tempfile.TemporaryDirectory() as folder,
        open(log_path, "w", encoding="utf-8") as log,
        lease(int(use_gpu), job, Path(log_path).with_name("gpus.tsv")),
    ):
        hypothesis, config = Path(folder) / "hyp", Path(folder) / "config.yaml"
        options: dict[str, Any] = {
            **load_yaml(decoding_path),
            "model": str(model),
            "src": str(source),
            "output": str(hypothesis),
            "gpu": 0 if use_gpu else -1,
        }
        config.write_text(yaml.safe_dump(options), encoding="utf-8")
        command = [sys.executable, "-m", "onmt_define.opennmt", "translate", "-config", str(config)]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        status = subprocess.run(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT
        ).returncode
        if status != 0:
            raise UserError(f"translating with {model} ended with status {status}; see {log_path}")
        return read_lines(hypothesis)

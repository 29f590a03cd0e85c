"""`onmt_define fold`: the folded model is OpenNMT-py's own, and translates the same."""

import sys

import pytest
import torch

from onmt_define import cli
from onmt_define.opennmt.checkpoint_files import load

pytestmark = pytest.mark.slow


@pytest.fixture
def fold(monkeypatch, capsys):
    """Run `onmt_define fold` in this process: (exit status, what it printed)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["onmt_define", "fold", *map(str, arguments)])
        try:
            cli.main()
            status = 0
        except SystemExit as exit_status:
            status = exit_status.code
        return status, "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize("beam", [1, 5])
def test_real_sentences_translate_the_same_without_the_package(
    captions, fold, run_command, stock_alone, beam
):
    status, printed = fold(captions / "model_step_150.pt", "-o", captions / "plain.pt")
    assert status == 0, printed
    assert "embedding_type define" in printed
    settings = ("-src", "test.en", "-beam_size", beam, "-max_length", "40")
    unfolded = run_command(
        *("onmt_translate", "-model", "model_step_150.pt", *settings, "-output", "unfolded"),
        cwd=captions,
    )
    assert unfolded.returncode == 0, unfolded.stderr
    alone = stock_alone(
        *("onmt.bin.translate", "-model", "plain.pt", *settings, "-output", "folded"), cwd=captions
    )
    assert alone.returncode == 0, alone.stderr
    lines = (captions / "unfolded").read_text("utf-8").splitlines()
    assert len(lines) == 500
    assert len(set(lines)) > 100
    assert (captions / "folded").read_text("utf-8").splitlines() == lines

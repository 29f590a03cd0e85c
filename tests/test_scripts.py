"""What the scripts and `onmt_define lm` say to input that can't be used: one sentence each."""

import argparse
import io
import os
import runpy
import signal
import subprocess
import sys
from functools import partial

import pytest
import torch
from paths import ROOT

from onmt_define import cli


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Run a command line that has to end with one sentence and leave no file; returns it."""
    (tmp_path / "text").write_text("a\n")
    (tmp_path / "empty").touch()
    options = argparse.Namespace(encoder_type="transformer")
    torch.save(
        {"opt": options, "vocab": {"src": [], "tgt": []}, "model": {}}, tmp_path / "translation.pt"
    )
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    def run(command):
        name, *arguments = command.split()
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        script = partial(runpy.run_path, str(ROOT / "scripts" / name), run_name="__main__")
        main = cli.main if name == "onmt_define" else script
        with pytest.raises(SystemExit) as exit_status:
            main()
        assert exit_status.value.code == 2
        assert sorted(tmp_path.rglob("*")) == before
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        return printed

    return run


CLEAN = (
    "clean_corpus.py --input . --output out --source-language en --target-language de --splits x"
)
BUILD = "build_vocabulary.py --source-vocabulary s --target-vocabulary t --target text --source"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "score.py --hypothesis no --reference text --test-set x --output s",
            "there is no file no",
        ),
        (
            "score.py --hypothesis . --reference text --test-set x --output s",
            ".: Is a directory",
        ),
        (
            "translate.py --model m --source no --language de --decoding d --output o --log l",
            "there is no file no",
        ),
        ("write_settings.py --output w", "standard input: Expecting value: line 1 column 1"),
        (
            "train_translation.py --config text --output . --corpus x --log l --allow-cpu",
            "text lacks train_steps or seed, expected a resolved train.yaml",
        ),
        (f"{BUILD} no", "source: there is no file no"),
        (f"{BUILD} empty", "source: empty is empty or blank, expected text"),
        (f"{CLEAN} --max-tokens 0 --max-length-ratio 2", "max_tokens is 0, expected at least 1"),
        (f"{CLEAN} --max-tokens 9 --max-length-ratio -1", "max_length_ratio is -1.0, expected at"),
        (f"{CLEAN} --max-tokens 9 --max-length-ratio nan", "max_length_ratio is nan, expected at"),
        (
            "onmt_define lm evaluate translation.pt text --output r",
            "translation.pt: not readable (it holds something else), expected a trained model.pt",
        ),
        ("onmt_define lm evaluate no.pt text --output r", "there is no file no.pt"),
    ],
)
def test_unfit_input_is_named(refused, command, sentence):
    assert refused(command).startswith(f"error: {sentence}")


def test_a_language_model_cannot_be_written_into_a_file(refused, tmp_path, monkeypatch):
    from onmt_define.lm import commands

    monkeypatch.setattr(commands, "read_arguments", lambda arguments: {})
    sentence = "error: --output: text is a file, expected a folder"
    assert refused("onmt_define lm train --config run.yaml --output text").startswith(sentence)


@pytest.mark.parametrize("script", ["train_translation", "train_language_model"])
def test_a_stop_signal_before_a_training_begins_ends_it(tmp_path, script):
    """Also where it was ignored by whoever started the script, as Snakemake does."""
    config = tmp_path / "config.yaml"
    os.mkfifo(config)
    options = ["--config", config, "--output", tmp_path / "run", "--log", tmp_path / "log"]
    options += ["--corpus", "x"] * (script == "train_translation")
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts" / f"{script}.py", *options],
        preexec_fn=lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    )
    with open(config, "w"):  # waits until the script reads it
        process.send_signal(signal.SIGUSR1)
        assert process.wait() == -signal.SIGUSR1

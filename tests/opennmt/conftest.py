"""A tiny task with a DeFINE model trained on it, and ways to run commands."""

import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
import yaml

from onmt_define import cli


@pytest.fixture(scope="session")
def toy(tmp_path_factory, run_command):
    """Folder with text, vocabularies and `train.yaml`: the target is the source, reversed."""
    folder = tmp_path_factory.mktemp("toy")
    rng = random.Random(1)
    words = [f"w{index}" for index in range(30)]
    for split, size in (("train", 300), ("valid", 20)):
        lines = [rng.choices(words, k=rng.randint(3, 8)) for _ in range(size)]
        (folder / f"{split}.src").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{split}.tgt").write_text("".join(f"{' '.join(line[::-1])}\n" for line in lines))
    options = {
        "data": {
            "train": {"path_src": "train.src", "path_tgt": "train.tgt", "weight": 1},
            "valid": {"path_src": "valid.src", "path_tgt": "valid.tgt"},
        },
        "src_vocab": "vocab.src",
        "tgt_vocab": "vocab.tgt",
        "save_data": "vocab",
        "save_model": "model",
        "embedding_type": "define",
        "define_map_dim": 16,
        "define_expand_dim": 64,
        "define_depth": 3,
        "define_groups": 4,
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "word_vec_size": 32,
        "hidden_size": 32,
        "layers": 1,
        "heads": 2,
        "transformer_ff": 64,
        "param_init": 0,
        "param_init_glorot": True,
        "optim": "adam",
        "learning_rate": 0.005,
        "batch_size": 16,
        "bucket_size": 300,
        "num_workers": 0,
        "train_steps": 20,
        "save_checkpoint_steps": 10,
        "valid_steps": 10,
        "report_every": 5,
        "seed": 1,
    }
    (folder / "train.yaml").write_text(yaml.safe_dump(options))
    built = run_command("onmt_build_vocab", "-config", "train.yaml", "-n_sample", "-1", cwd=folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="session")
def trained(toy, run_command):
    """The toy folder after `onmt_train`, and what that printed."""
    result = run_command("onmt_train", "-config", "train.yaml", cwd=toy)
    assert result.returncode == 0, result.stderr
    return toy, result.stdout + result.stderr


@pytest.fixture
def stock(toy, monkeypatch, capfd):
    """Run a stock command in this process: (exit status, what it printed)."""

    def run(name, *arguments, cwd=toy):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", [f"onmt_{name}", *map(str, arguments)])
        try:
            import_module(f"onmt.bin.{name}").main()
            status = 0
        except SystemExit as exit_status:
            status = exit_status.code
        return status, "".join(capfd.readouterr())

    return run


@pytest.fixture
def command(monkeypatch, capfd):
    """Run `onmt_define` in this process: (exit status, what it printed)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["onmt_define", *map(str, arguments)])
        try:
            cli.main()
            status = 0
        except SystemExit as exit_status:
            status = exit_status.code
        return status, "".join(capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def stock_alone():
    """Run a command of OpenNMT-py, or of CTranslate2, where this package isn't installed."""
    driver = Path(__file__).with_name("stock_alone.py")
    site = Path(torch.__file__).parents[1]

    def run(module, *arguments, cwd):
        return subprocess.run(
            [sys.executable, "-I", "-S", driver, site, module, *map(str, arguments)],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run

"""A tiny task and real text with DeFINE models trained on them, and ways to run commands."""

import lzma
import random
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
import yaml
from paths import TEXTS

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


@pytest.fixture(scope="session")
def captions(tmp_path_factory, run_command):
    """Folder with a DeFINE model of both kinds of sharing, trained a little on real captions.

    Words of the Multi30k training text are the vocabulary; `test.en` holds 500 unseen sentences.
    """
    text = TEXTS / "multi30k"
    if not text.is_dir():
        pytest.skip("the Multi30k text isn't here")
    folder = tmp_path_factory.mktemp("captions")
    for split, size in (("train", 8000), ("val", 50), ("test_2016_flickr", 500)):
        for side in ("en", "de"):
            packed = (text / f"{split}.{side}.xz").read_bytes()
            lines = lzma.decompress(packed).decode("utf-8").split("\n")[:size]
            words = [re.findall(r"\w+|[^\w\s]", line) for line in lines]
            spaced = "".join(f"{' '.join(line)}\n" for line in words)
            (folder / f"{split.split('_')[0]}.{side}").write_text(spaced, encoding="utf-8")
    options = {
        "data": {
            "train": {"path_src": "train.en", "path_tgt": "train.de", "weight": 1},
            "valid": {"path_src": "val.en", "path_tgt": "val.de"},
        },
        "share_vocab": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        **{"src_vocab": "vocab", "tgt_vocab": "vocab", "save_data": "vocab", "save_model": "model"},
        **{"src_words_min_frequency": 4, "tgt_words_min_frequency": 4},
        **{"embedding_type": "define", "define_map_dim": 32, "define_expand_dim": 128},
        **{"define_depth": 3, "define_groups": 4, "word_vec_size": 64, "hidden_size": 64},
        **{"encoder_type": "transformer", "decoder_type": "transformer"},
        **{"position_encoding": True, "layers": 1, "heads": 4, "transformer_ff": 128},
        **{"param_init": 0, "param_init_glorot": True, "optim": "adam", "learning_rate": 0.003},
        **{"batch_type": "tokens", "batch_size": 1024, "bucket_size": 2048, "num_workers": 0},
        **{"train_steps": 150, "save_checkpoint_steps": 150, "valid_steps": 1000, "seed": 1},
    }
    (folder / "train.yaml").write_text(yaml.safe_dump(options))
    for command in ("onmt_build_vocab", "onmt_train"):
        extra = ("-n_sample", "-1") if command == "onmt_build_vocab" else ()
        result = run_command(command, "-config", "train.yaml", *extra, cwd=folder)
        assert result.returncode == 0, result.stderr
    return folder

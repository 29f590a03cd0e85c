"""Benchmarks run to their end with tiny settings."""

import csv
import subprocess
import sys

import pytest
from paths import ROOT

pytestmark = pytest.mark.slow

TRANSLATING = ROOT / "benchmarks" / "translate.py"
TRAINING = ROOT / "benchmarks" / "train.py"
PROFILE = ROOT / "benchmarks" / "train_profile.py"


def train_packed(program, output):
    """A few steps of the packed loop, of a toy."""
    text = output.parent / "text"
    text.write_text("a b c\nb c d e\n" * 20)
    sizes = ("vocabulary=9", "width=8", "layers=1", "heads=1", "ff=8", "tokens=30", "gpus=0")
    settings = ("--packed-steps=8", "--report=2", *(f"--{size}" for size in sizes))
    result = subprocess.run(
        [
            *(sys.executable, program, "--source", text, "--target", text, "--output", output),
            *("--contenders", "packed", *settings),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_training_says_how_fast_it_was(tmp_path):
    output = tmp_path / "train.csv"
    printed = train_packed(TRAINING, output)
    (row,) = csv.DictReader(output.open())
    assert row["contender"] == "packed"
    assert int(row["tokens_per_second"]) > 0
    assert "packed batches alone" in printed


def test_the_profile_of_a_step_adds_up(tmp_path):
    train_packed(PROFILE, tmp_path / "step.svg")
    spent = {
        row["what"]: float(row["ms a step"])
        for row in csv.DictReader((tmp_path / "step.csv").open())
    }
    step = spent.pop("all of it")
    assert sum(spent.values()) == pytest.approx(step, abs=0.05)  # each is rounded to 0.01
    assert spent["matrix products"] > 0
    assert spent["optimizer"] > 0
    picture = (tmp_path / "step.svg").read_text()
    assert "packed: " in picture
    assert "matrix products" in picture


def test_every_system_makes_the_same_number_of_tokens(tmp_path):
    pytest.importorskip("ctranslate2")
    (tmp_path / "text").write_text("a b c\nb c d e\n" * 4)
    sizes = ("vocabulary=40", "width=32", "layers=1", "heads=2", "ff=32", "map-dim=16", "tokens=5")
    settings = ("--rounds=2", "--expand-dim=32", "--groups=4", *(f"--{size}" for size in sizes))
    output = tmp_path / "translate.csv"
    result = subprocess.run(
        [sys.executable, TRANSLATING, "--text", tmp_path / "text", "--output", output, *settings],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(output.open()))
    assert len({row["system"] for row in rows}) == 5
    assert {row["tokens"] for row in rows} == {"40"}
    assert len(rows) == 10
    assert all(float(row["tokens_per_second"]) > 0 for row in rows)
    assert len({row["memory_mb"] for row in rows}) > 1
    assert "DeFINE unfolded" in result.stdout


def test_a_missing_text_is_one_sentence(tmp_path):
    result = subprocess.run(
        [sys.executable, TRANSLATING, "--text", tmp_path / "nowhere"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert f"error: there is no file {tmp_path / 'nowhere'}" in result.stderr

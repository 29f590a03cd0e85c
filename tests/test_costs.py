"""What `onmt_define plan` says a run will cost, and that a disk too small stops it."""

import json
from argparse import Namespace
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from paths import ROOT

from onmt_define.errors import UserError
from onmt_define.opennmt.checkpoint_files import load
from onmt_define.workflow import costs
from onmt_define.workflow.averaging import average_checkpoints
from onmt_define.workflow.config import corpus_folders, corpus_splits, load_config
from onmt_define.workflow.costs import GIB, check_disk, estimate
from onmt_define.workflow.plan import training_options
from onmt_define.workflow.training_config import resolve_training

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.chdir(tmp_path)
    return load_config(ROOT / "config.yaml")


def write(path: str, content: object) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(content))


def test_wmt14_from_nothing(config: dict) -> None:
    result = estimate(config)
    sizes = [one.size for one in result.downloads if "training-parallel" in one.name]
    assert sizes == [657_632_379, 918_311_367, 80_418_416]
    names = {one.name for one in result.downloads}
    assert {"sacrebleu wmt13", "sacrebleu wmt14/full", "sacrebleu wmt17"} <= names
    assert any("wikitext-103" in name for name in names)
    assert not any(one.done for one in result.trainings)
    standard = next(one for one in result.trainings if one.name == "standard seed 1")
    # 100,000 steps of 32,768 tokens at the speed of docs/performance.md.
    assert standard.hours == pytest.approx(100_000 * 32_768 / 437_015 / 3600, rel=0.05)
    # About 92 million weights, five checkpoints with Adam and a sixth for a while, two models.
    assert standard.disk_at_end == pytest.approx(92e6 * (5 * 12 + 2 * 4), rel=0.05)
    assert standard.disk_at_peak == pytest.approx(92e6 * (6 * 12 + 2 * 4), rel=0.05)
    assert result.disk_at_peak > result.disk_at_end > 20 * GIB


def resolved(options: dict, bpe: str, folder: str) -> dict:
    return resolve_training(
        options, bpe_dir=bpe, output_dir=folder, source_language="en", target_language="de", seed=1
    )


def test_what_is_done_costs_nothing(config: dict) -> None:
    before = estimate(config)
    raw, clean, bpe = corpus_folders(config)
    for language in ("en", "de"):
        for split in corpus_splits(config):
            write(f"{raw}/{split}.{language}", "")
        for folder in (clean, bpe):
            write(f"{folder}/train.{language}", "")
    for run in config["translation"]["runs"]:
        folder = f"results/paper/mt/{run['name']}/seed1"
        write(f"{folder}/record.json", {})
        options = training_options(config, run["name"])
        write(f"{folder}/train.yaml", resolved(options, bpe, folder))
    after = estimate(config)
    assert not any("training-parallel" in one.name for one in after.downloads)
    assert after.disk_at_end < before.disk_at_end - 20 * GIB
    assert [one.done for one in after.trainings[:4]] == [True] * 4
    assert after.texts[0] == "wmt14 (raw, clean, encoded)"
    # Snakemake trains again what other settings were given for.
    config["translation"]["training"]["warmup_steps"] = 4000
    assert [one.done for one in estimate(config).trainings[:4]] == [False] * 4


def test_a_disk_too_small_stops_the_run(config: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = estimate(config).disk_at_peak
    monkeypatch.setattr(costs.shutil, "disk_usage", lambda _: Usage(needed, 1, needed + 1))
    check_disk(config, "config.yaml")
    monkeypatch.setattr(costs.shutil, "disk_usage", lambda _: Usage(needed, 1, needed - 1))
    with pytest.raises(UserError, match=r"config\.yaml: about \d+\.\d GiB of disk are needed"):
        check_disk(config, "config.yaml")


def test_only_what_was_asked_for_needs_room(config: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, bpe = corpus_folders(config)
    monkeypatch.setattr(costs.shutil, "disk_usage", lambda _: Usage(9 * GIB, 1, 7 * GIB))
    check_disk(config, "config.yaml", [f"{bpe}/vocabulary-separate.en"])
    check_disk(config, "config.yaml", ["data/ptb/raw/train.txt"])
    folders = [each.folder for each in estimate(config).trainings]
    settings = [f"{folder}/{name}" for folder in folders for name in ("train.yaml", "run.yaml")]
    check_disk(config, "config.yaml", settings)
    one = ["results/paper/mt/define/seed1/model.pt"]
    check_disk(config, "config.yaml", one)
    with pytest.raises(UserError, match="GiB of disk are needed"):
        check_disk(config, "config.yaml", [*one, "results/paper/mt/standard/seed1/model.pt"])
    with pytest.raises(UserError, match="GiB of disk are needed"):
        check_disk(config, "config.yaml")


def checkpoint(folder: Path, step: int, value: float) -> None:
    weights = {"weight": torch.full((2,), value)}
    # One tensor in both places, as where the classifier is tied to a table.
    content = {
        "model": weights,
        "generator": dict(weights),
        "vocab": {"src": [], "tgt": []},
        "optim": {},
    }
    content["opt"] = Namespace(embedding_type="standard")
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / f"checkpoint_step_{step}.pt")


def test_the_last_checkpoints_are_averaged(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints ü"
    for step, value in ((10, 100.0), (20, 1.0), (30, 4.0)):
        checkpoint(folder, step, value)
    assert average_checkpoints(folder, tmp_path / "average.pt", 2) == [30, 20]
    average = load(tmp_path / "average.pt")
    for part in ("model", "generator"):
        assert average[part]["weight"].tolist() == [2.5, 2.5]
    with pytest.raises(UserError, match="has 3 checkpoints, but 4 are to be averaged"):
        average_checkpoints(folder, tmp_path / "other.pt", 4)
    assert not (tmp_path / "other.pt").exists()

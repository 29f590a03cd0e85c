"""Training, evaluation, resuming and the command line of the language models."""

import argparse
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from filelock import FileLock

from onmt_define import checkpoint_folder
from onmt_define.errors import UserError
from onmt_define.lm import checkpoints as checkpoints_module
from onmt_define.lm import lightning_module
from onmt_define.lm import training as training_module
from onmt_define.lm.batches import BpttBatches
from onmt_define.lm.checkpoint_files import lm_checkpoints
from onmt_define.lm.commands import add_commands, require_gpus
from onmt_define.lm.evaluation import load_model, save_model
from onmt_define.lm.graphed_gradients import Recorder
from onmt_define.lm.loss_watch import LossWatch
from onmt_define.lm.run_settings import check_run, complete_run
from onmt_define.lm.training import train

SCRIPT = Path(__file__).parents[1] / "scripts" / "train_language_model.py"
UNIT = {"output_dim": 16, "expand_dim": 16, "depth": 3, "max_groups": 4}


def checkpoints(folder):
    """Paths of the checkpoints, the newest first."""
    return [path for _, path in lm_checkpoints(folder).by_step()]


@pytest.fixture(autouse=True)
def one_thread():
    """Several threads only get in each other's way on models this small."""
    torch.set_num_threads(1)


@pytest.fixture
def texts(tmp_path):
    """Sentences in which each word but the first follows from the one before."""
    generator, words = random.Random(1), ["red", "green", "blue", "white", "black"]
    for split, lines in (("train", 150), ("valid", 30), ("test", 30)):
        with open(tmp_path / f"{split}.txt", "w") as file:
            for _ in range(lines):
                start = generator.randrange(5)
                length = generator.randint(2, 5)
                file.write(" ".join((words * 2)[start : start + length]) + "\n")
    return {split: str(tmp_path / f"{split}.txt") for split in ("train", "valid", "test")}


@pytest.fixture
def run(texts):
    settings = {
        **texts,
        "run": "tiny",
        "seed": 1,
        "corpus": "colours",
        "model": "lstm",
        "map": {"type": "standard", "dim": 8},
        "unit": UNIT,
        "hidden_size": 16,
        "layers": 2,
        "dropout": 0.2,
        "bptt": 10,
        "batch_size": 4,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "decay_epochs": [1],
        "decay_factor": 0.5,
        "gradient_clip": 1.0,
        "epochs": 2,
        "save_every": 4,
        "min_count": 1,
        "vocabulary_size": None,
    }
    return check_run(settings, "run")


def result(folder):
    """Weights, and the record without what a clock or the number of tries decides."""
    record = json.loads((folder / "record.json").read_text())
    del record["tries"]
    for entry in (record, *record["learning_curve"]):
        entry.pop("seconds", None)
        entry.pop("tokens_per_second")
    return torch.load(folder / "model.pt")["weights"], record


def test_batches_cut_the_text_into_contiguous_streams():
    batches = list(BpttBatches(np.arange(23, dtype=np.int32), batch_size=3, bptt=4))
    assert [batch.starts_anew for batch in batches] == [True, False]
    inputs = torch.cat([batch.inputs for batch in batches])
    targets = torch.cat([batch.targets for batch in batches])
    assert inputs.t().tolist() == [[*range(6)], [*range(7, 13)], [*range(14, 20)]]
    assert torch.equal(targets, inputs + 1)


def test_batches_go_on_where_another_iterator_was():
    ids = np.arange(60, dtype=np.int32)
    batches, later = (BpttBatches(ids, batch_size=2, bptt=5) for _ in range(2))
    expected = [inputs.tolist() for inputs, *_ in batches]
    iterator = iter(batches)
    next(iterator), next(iterator)
    later.load_state_dict(batches.state_dict())
    assert [inputs.tolist() for inputs, *_ in later] == expected[2:]
    assert [inputs.tolist() for inputs, *_ in later] == expected


def test_random_lengths_read_every_token_once_and_differ_between_epochs():
    ids = np.arange(20_000, dtype=np.int32)
    batches = BpttBatches(ids, batch_size=2, bptt=70, random_seed=1)
    epochs = [list(batches) for _ in range(2)]
    for epoch in epochs:
        assert torch.equal(torch.cat([batch.inputs for batch in epoch])[:, 0], torch.arange(9999))
        assert len(epoch) == len(batches)
    lengths = [[len(batch.inputs) for batch in epoch] for epoch in epochs]
    assert lengths[0] != lengths[1]
    typical = sorted(lengths[0])[len(lengths[0]) // 2]
    assert 65 <= typical <= 75
    assert 20 < min(lengths[0] + lengths[1]) < 50  # now and then half as long
    resumed = BpttBatches(ids, batch_size=2, bptt=70, random_seed=1)
    resumed.load_state_dict({"epoch": 1, "position": 5})
    assert torch.equal(next(iter(resumed)).inputs, epochs[1][5].inputs)


def test_targets_are_counted_by_band():
    ids = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8], dtype=np.int32)
    (batch,) = BpttBatches(ids, batch_size=1, bptt=9, cutoffs=[3, 7])
    assert batch.band_sizes == [2, 4, 2]  # targets 1, 2; 3 to 6; 7, 8


def test_parts_of_the_streams_for_several_gpus():
    ids = np.arange(40, dtype=np.int32)
    whole = next(iter(BpttBatches(ids, batch_size=4, bptt=5))).inputs
    parts = [next(iter(BpttBatches(ids, 4, 5, part=(rank, 2)))).inputs for rank in range(2)]
    assert torch.equal(torch.cat(parts, dim=1), whole)
    with pytest.raises(UserError, match="batch_size is 4, expected a multiple of the 3 GPUs"):
        BpttBatches(ids, 4, 5, part=(0, 3))


def test_more_streams_than_tokens_are_refused():
    with pytest.raises(UserError, match="batch_size is 8, expected at most 5"):
        BpttBatches(np.arange(10, dtype=np.int32), batch_size=8, bptt=4)


def test_training_learns_and_leaves_a_complete_record(run, tmp_path):
    output = tmp_path / "output"
    train({**run, "epochs": 12, "dropout": 0.0, "decay_epochs": []}, output)
    record = json.loads((output / "record.json").read_text())
    steps_an_epoch = record["steps"] // 12
    # A line's start is a guess among five, its length one among four: 1.95 is the best there is.
    assert 1.9 < record["perplexity"]["test"] < 2.3
    assert record["perplexity"]["valid"] == pytest.approx(record["validation"][-1]["perplexity"])
    assert record["embedding"]["groups"] == [4, 2, 1]
    assert record["parameters"]["total"] == sum(
        record["parameters"][part] for part in ("embedding", "context", "output")
    )
    assert record["vocabulary"] == 6
    assert [entry["step"] for entry in record["validation"]] == [
        steps_an_epoch * epoch for epoch in range(1, 13)
    ]
    assert record["learning_curve"][-1]["step"] == record["steps"]
    lines = Path(run["test"]).read_text().splitlines()
    assert record["tokens"]["test"] == sum(len(line.split()) + 1 for line in lines)
    assert {"python", "torch", "lightning", "onmt_define"} <= set(record["versions"])
    assert record["device"] == "CPU, 1 thread"
    assert len(checkpoints(output / "checkpoints")) == 2

    model, settings, vocabulary = load_model(output / "model.pt")
    assert settings["run"] == "tiny"
    assert len(vocabulary) == 6
    assert not model.training


def test_learning_rate_decays_after_the_given_epoch(run, tmp_path):
    train({**run, "epochs": 4, "decay_epochs": [2]}, tmp_path / "output")
    curve = json.loads((tmp_path / "output" / "record.json").read_text())["learning_curve"]
    steps = curve[-1]["step"] // 4
    rates = [{p["learning_rate"] for p in curve if (p["step"] - 1) // steps == e} for e in range(4)]
    assert rates == [{0.01}, {0.01}, {0.005}, {0.005}]


def test_training_goes_on_from_every_checkpoint_as_if_never_stopped(run, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints_module, "KEPT_CHECKPOINTS", 100)
    train(run, tmp_path / "whole")
    expected_weights, expected_record = result(tmp_path / "whole")
    saved = checkpoints(tmp_path / "whole" / "checkpoints")
    assert len(saved) >= 4
    for checkpoint in saved:
        output = tmp_path / checkpoint.stem
        (output / "checkpoints").mkdir(parents=True)
        shutil.copy(checkpoint, output / "checkpoints")
        train(run, output)
        weights, record = result(output)
        assert all(torch.equal(weights[name], expected_weights[name]) for name in weights)
        assert record == expected_record


AWD_LSTM = {
    **{"model": "awd-lstm", "input_dropout": 0.2, "hidden_dropout": 0.2, "weight_dropout": 0.5},
    **{"embedding_dropout": 0.1, "activation_penalty": 2, "temporal_penalty": 1},
    **{"random_bptt": True, "optimizer": "sgd", "learning_rate": 3.0, "decay_epochs": []},
    **{"average_after": 1, "epochs": 4, "fine_tuning_epochs": 1, "save_every": 10},
}
TRANSFORMER_XL = {
    **{"model": "transformer-xl", "model_dim": 16, "inner_dim": 16, "heads": 2, "head_dim": 8},
    **{"memory": 12, "evaluation_memory": 20, "schedule": "cosine", "warmup_steps": 3},
    **{"classifier": {"type": "adaptive", "cutoffs": [2, 4]}, "save_every": 10},
}


def changed(run, changes):
    """A complete run with other settings; what only its own model has is left out."""
    own = {"hidden_size"} if changes.get("model") == "transformer-xl" else set()
    settings = {key: value for key, value in run.items() if key not in own}
    return check_run({**settings, **changes}, "run")


@pytest.mark.parametrize("changes", [AWD_LSTM, TRANSFORMER_XL])
def test_other_models_go_on_as_if_never_stopped(run, tmp_path, monkeypatch, changes):
    run = changed(run, changes)
    monkeypatch.setattr(checkpoints_module, "KEPT_CHECKPOINTS", 100)
    train(run, tmp_path / "whole")
    expected_weights, expected_record = result(tmp_path / "whole")
    saved = checkpoints(tmp_path / "whole" / "checkpoints")
    # The end of an epoch, and two places within one.
    for checkpoint in saved[1:-1:2][:3]:
        output = tmp_path / checkpoint.stem
        (output / "checkpoints").mkdir(parents=True)
        shutil.copy(checkpoint, output / "checkpoints")
        train(run, output)
        weights, record = result(output)
        assert all(torch.equal(weights[name], expected_weights[name]) for name in weights)
        assert record == expected_record


def test_weights_are_averaged_once_validation_stops_improving(run, tmp_path, capsys):
    # What the model learns is wrong of a text read backwards.
    lines = [line.split()[::-1] for line in Path(run["valid"]).read_text().splitlines()]
    Path(run["valid"]).write_text("".join(" ".join(line) + "\n" for line in lines))
    train(changed(run, {**AWD_LSTM, "epochs": 6, "fine_tuning_epochs": 0}), tmp_path / "output")
    lines = capsys.readouterr().err.splitlines()
    begun = lines.index("[tiny] averaging the weights from now on")
    weights, record = result(tmp_path / "output")
    perplexities = [entry["perplexity"] for entry in record["validation"]]
    epoch = int(re.search(r"epoch (\d+)/6", lines[begun - 1])[1])
    assert epoch < 6
    assert perplexities[epoch - 1] > min(perplexities[: epoch - 1])
    assert all(a >= b for a, b in pairwise(perplexities[: epoch - 1]))
    assert record["perplexity"]["valid"] == pytest.approx(perplexities[-1])

    saved = torch.load(checkpoints(tmp_path / "output" / "checkpoints")[0])
    average, own = saved["language_model"]["average"], saved["state_dict"]
    assert average["steps"] == record["steps"] // 6 * (6 - epoch)
    name = "context.layers.0.weight_hh_l0"
    assert any(torch.equal(weights[name], part) for part in average["averages"])
    assert not torch.equal(weights[name], own[f"model.{name}"])


@pytest.mark.parametrize("changes", [AWD_LSTM, {"unit": UNIT, "random_bptt": True}])
def test_a_graph_for_each_length_trains_the_same(run, tmp_path, monkeypatch, changes):
    """On the CPU a recording is the function itself, run once more."""
    run = changed(run, {**changes, "epochs": 3})
    train(run, tmp_path / "plain")
    recorded = []

    def record(self, function):
        function()
        recorded.append(function)
        return function

    monkeypatch.setattr(Recorder, "record", record)
    monkeypatch.setattr(lightning_module, "can_be_graphed", lambda *_: True)
    train(run, tmp_path / "graphed")
    expected, plain = result(tmp_path / "plain")
    weights, graphed = result(tmp_path / "graphed")
    assert all(torch.equal(weights[name], expected[name]) for name in weights)
    assert graphed == plain
    assert 1 < len(recorded) < plain["steps"]


def test_what_cannot_be_recorded_is_trained_step_by_step(run, tmp_path, monkeypatch, capsys):
    run = changed(run, {**AWD_LSTM, "epochs": 2})
    train(run, tmp_path / "plain")
    whole = Recorder.record
    recorded = []

    def record(self, function):
        function()
        recorded.append(function)
        if len(recorded) == 4:
            whole(self, function)  # there is no CUDA device
        return function

    monkeypatch.setattr(Recorder, "record", record)
    monkeypatch.setattr(lightning_module, "can_be_graphed", lambda *_: True)
    capsys.readouterr()
    train(run, tmp_path / "graphed")
    assert capsys.readouterr().err.count("[tiny] steps are launched one by one: ") == 1
    assert result(tmp_path / "graphed")[1] == result(tmp_path / "plain")[1]


def test_learning_rates_of_random_lengths_and_of_cosine(run, tmp_path):
    train(changed(run, {**AWD_LSTM, "epochs": 1, "fine_tuning_epochs": 0}), tmp_path / "awd")
    batches = BpttBatches(np.load(tmp_path / "awd" / "data" / "train.npy"), 4, 10, random_seed=1)
    lengths = [len(batch.inputs) for batch in batches]
    curve = json.loads((tmp_path / "awd" / "record.json").read_text())["learning_curve"]
    rates = [point["learning_rate"] for point in curve]
    assert rates == pytest.approx([3 * length / 10 for length in lengths])

    train(changed(run, {**TRANSFORMER_XL, "warmup_steps": 4, "epochs": 1}), tmp_path / "xl")
    curve = json.loads((tmp_path / "xl" / "record.json").read_text())["learning_curve"]
    rates = [point["learning_rate"] / 0.01 for point in curve]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    share = (len(rates) - 1 - 4) / (len(rates) - 4)
    assert rates[-1] == pytest.approx((1 + math.cos(math.pi * share)) / 2)


def test_a_truncated_checkpoint_is_passed_over(run, tmp_path, capsys):
    output = tmp_path / "output"
    train(run, output)
    expected_weights, expected_record = result(output)
    newest, older = checkpoints(output / "checkpoints")
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    (output / "model.pt").unlink()
    capsys.readouterr()

    train(run, output)
    messages = capsys.readouterr().err
    assert f"{newest} is damaged" in messages
    assert f"going on from step {int(older.stem.removeprefix('step-'))}" in messages
    weights, record = result(output)
    assert all(torch.equal(weights[name], expected_weights[name]) for name in weights)
    assert record == expected_record


@pytest.mark.parametrize("reason", [PermissionError(13, "no", "x"), OSError(5, "I/O error")])
def test_a_checkpoint_that_cannot_be_read_now_is_kept(run, tmp_path, monkeypatch, reason):
    train({**run, "epochs": 1}, tmp_path / "output")
    folder = tmp_path / "output" / "checkpoints"
    before = checkpoints(folder)

    def refuse(path):
        raise reason

    monkeypatch.setattr(checkpoint_folder.zipfile, "ZipFile", refuse)
    with pytest.raises(OSError, match=reason.strerror):
        train(run, tmp_path / "output")
    assert checkpoints(folder) == before


WITH_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from onmt_define.lm.checkpoint_files import lm_checkpoints
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000,) * 2)
try:
    lm_checkpoints(Path(sys.argv[1])).newest_valid()
except OSError as error:
    sys.exit(f"{error.filename}: {error.strerror}")
"""


def test_a_checkpoint_for_which_memory_is_too_little_is_kept(tmp_path):
    path = tmp_path / "step-000000001.ckpt"
    torch.save({"language_model": {}, "weights": torch.zeros(100_000_000)}, path)
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WITH_LITTLE_MEMORY, tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stderr == f"{path}: Cannot allocate memory\n"
    assert path.exists()


def test_more_epochs_continue_but_other_settings_are_refused(run, tmp_path):
    output = tmp_path / "output"
    train({**run, "epochs": 1}, output)
    steps = json.loads((output / "record.json").read_text())["steps"]
    run["epochs"] = 3
    train(run, output)
    assert json.loads((output / "record.json").read_text())["steps"] == 3 * steps
    with pytest.raises(UserError, match="made with hidden_size: 16, but the run says 32"):
        train({**run, "hidden_size": 32}, output)
    with pytest.raises(UserError, match=r"made with unit.depth: 3, but the run says 4"):
        train({**run, "unit": {**run["unit"], "depth": 4}}, output)
    with open(run["train"], "a") as file:
        file.write("red\n")
    with pytest.raises(UserError, match="made with another train text"):
        train(run, output)
    with open(run["train"], "a") as file:
        file.write("mauve\n")
    sentence = "another vocabulary: 6 token types, now 7, and number 6 was None, now 'mauve'"
    with pytest.raises(UserError, match=sentence):
        train(run, output)


def test_a_training_begun_anew_records_nothing_of_the_one_before(run, tmp_path, monkeypatch):
    output = tmp_path / "output"
    train({**run, "epochs": 1}, output)
    train({**run, "epochs": 2}, output)
    assert len(json.loads((output / "record.json").read_text())["tries"]) == 2
    shutil.rmtree(output / "checkpoints")
    train({**run, "epochs": 1, "learning_rate": 0.002}, output)
    assert json.loads((output / "record.json").read_text())["tries"] == [{"from_step": 0}]


def test_fewer_epochs_than_are_done_are_refused(run, tmp_path):
    output = tmp_path / "output"
    train({**run, "epochs": 2}, output)
    before = (output / "record.json").read_bytes()
    newest = checkpoints(output / "checkpoints")[0]
    with pytest.raises(UserError) as refused:
        train({**run, "epochs": 1}, output)
    assert str(refused.value) == (
        f"{newest} is of epoch 2, but the run says epochs: 1; expected at least 2, or another "
        "output folder"
    )
    assert (output / "record.json").read_bytes() == before


def test_epochs_may_become_fewer_down_to_the_one_that_is_begun(run, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints_module, "KEPT_CHECKPOINTS", 100)
    train({**run, "epochs": 2}, tmp_path / "whole")
    steps = json.loads((tmp_path / "whole" / "record.json").read_text())["steps"] // 2
    first, second = tmp_path / "first", tmp_path / "second"
    for checkpoint in checkpoints(tmp_path / "whole" / "checkpoints"):
        step = int(checkpoint.stem.removeprefix("step-"))
        folder = (first if step <= steps else second) / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        if step < 2 * steps:
            shutil.copy(checkpoint, folder)
    train({**run, "epochs": 1}, first)
    record = json.loads((first / "record.json").read_text())
    assert (record["steps"], record["epochs"]) == (steps, 1)
    # In the middle of the second epoch there is no model of one.
    assert len(checkpoints(second / "checkpoints")) > 0
    with pytest.raises(UserError, match="is of epoch 2, but the run says epochs: 1; expected at"):
        train({**run, "epochs": 1}, second)
    train({**run, "epochs": 2}, second)
    assert json.loads((second / "record.json").read_text())["steps"] == 2 * steps


def test_a_model_that_no_memory_holds_is_refused(run, tmp_path, monkeypatch):
    # A petabyte, which torch can't get anywhere.
    monkeypatch.setattr(training_module, "build_model", lambda *_: torch.empty(1 << 48))
    with pytest.raises(UserError, match="no memory for a model of these sizes and 6 token types"):
        train(run, tmp_path / "output")


def test_a_refusal_leaves_the_folder_as_it_is(run, tmp_path):
    output = tmp_path / "output"
    train({**run, "epochs": 1}, output)

    def files():
        return {
            path: path.read_bytes()
            for path in output.rglob("*")
            if path.is_file() and path.name != ".training.lock"
        }

    before = files()
    with open(run["train"], "a") as file:
        file.write("mauve\n")
    with pytest.raises(UserError, match="another vocabulary"):
        train(run, output)
    assert files() == before


@pytest.mark.parametrize("content", [{"weights": torch.zeros(3)}, torch.zeros(3), [1]])
def test_a_checkpoint_of_something_else_is_named_and_stays(run, tmp_path, content):
    path = tmp_path / "output" / "checkpoints" / "step-000000009.ckpt"
    path.parent.mkdir(parents=True)
    torch.save(content, path)
    with pytest.raises(UserError, match=f"{path} is no checkpoint of `onmt_define lm train`"):
        train(run, tmp_path / "output")
    assert path.exists()


def test_other_things_beside_the_metrics_do_not_matter(run, tmp_path):
    for name in ("x", "from-step-x"):
        (tmp_path / "output" / "metrics" / name).mkdir(parents=True)
    train({**run, "epochs": 1}, tmp_path / "output")
    record = json.loads((tmp_path / "output" / "record.json").read_text())
    assert record["tries"] == [{"from_step": 0}]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_no_room_for_the_model_is_said(run, tmp_path, share):
    train({**run, "epochs": 1}, tmp_path / "output")
    model, settings, vocabulary = load_model(tmp_path / "output" / "model.pt")
    limit = int((tmp_path / "output" / "model.pt").stat().st_size * share)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(UserError, match="can't be written"):
            save_model(tmp_path / "again.pt", model, settings, vocabulary)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "again.pt").exists()


def test_a_loss_that_is_no_number_stops_with_its_step(run, tmp_path):
    run |= {"optimizer": "sgd", "learning_rate": 1e30, "gradient_clip": 0}
    sentence = (
        r"run tiny: the loss is (nan|inf) at step [23], expected a finite number; there is no"
    )
    with pytest.raises(UserError, match=sentence):
        train(run, tmp_path / "output")
    assert not (tmp_path / "output" / "record.json").exists()


def test_an_exploded_loss_stops_and_names_the_last_good_checkpoint(run, tmp_path):
    run |= {"optimizer": "sgd", "learning_rate": 300.0, "gradient_clip": 0, "save_every": 1}
    folder = tmp_path / "output" / "checkpoints"
    with pytest.raises(UserError) as stopped:
        train({**run, "unit": None}, tmp_path / "output")
    message = str(stopped.value)
    assert re.search(r"the loss is [\d.]+ at step \d+, expected at most 17.9, 10 times", message)
    newest = checkpoints(folder)[0]
    assert f"the last good checkpoint is {newest};" in message
    step = int(re.search(r"at step (\d+)", message)[1])
    assert int(newest.stem.removeprefix("step-")) == step - 1


@pytest.mark.parametrize(
    ("precision", "sentence"),
    [
        ("float16", "precision is 'float16', expected float32 or tf32 on the CPU for model lstm"),
        ("bfloat16", "precision is 'bfloat16', expected float32 or tf32 on the CPU"),
    ],
)
def test_a_precision_that_the_cpu_lacks_is_refused(run, tmp_path, precision, sentence):
    with pytest.raises(UserError, match=sentence):
        train({**run, "precision": precision}, tmp_path / "output")


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    watch = LossWatch("tiny", 10, tmp_path)
    watch.check_weights(3, [torch.ones(2), torch.zeros(1)])
    with pytest.raises(UserError, match="a weight is no finite number after step 4; there is no"):
        watch.check_weights(4, [torch.ones(2), torch.tensor([math.inf])])


def test_the_first_wrong_loss_is_named_however_late_one_looks(tmp_path):
    watch = LossWatch("tiny", 10, tmp_path)
    losses = [1.0, 2.0, math.nan, 3.0]
    watch.pending = [(step, torch.tensor(loss)) for step, loss in enumerate(losses, start=5)]
    with pytest.raises(UserError, match="the loss is nan at step 7, expected a finite number"):
        watch.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_leaves_with_its_status(run, tmp_path, capsys, number):
    run |= {"epochs": 1_000_000, "save_every": 1_000_000}
    folder = tmp_path / "output" / "checkpoints"

    def stop_after_the_first_epoch():
        while not checkpoints(folder):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    threading.Thread(target=stop_after_the_first_epoch, daemon=True).start()
    with pytest.raises(SystemExit) as stopped:
        train(run, tmp_path / "output")
    assert stopped.value.code == 128 + number
    assert signal.getsignal(number) == before
    step = int(checkpoints(folder)[0].stem.removeprefix("step-"))
    assert f"stopped by {number.name} after step {step:,}" in capsys.readouterr().err


def start_script(run, tmp_path, *arguments):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    command = [sys.executable, SCRIPT, "--config", tmp_path / "run.yaml"]
    command += ["--output", tmp_path / "output", "--log", tmp_path / "log" / "run.log", *arguments]
    search_path = f"{SCRIPT.parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": search_path}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


TWO_PROCESSES = """
import json, sys
from onmt_define.lm.training import train
train(json.loads(sys.argv[1]), sys.argv[2], processes=2)
"""


@pytest.mark.slow
def test_two_processes_train_like_one_and_one_goes_on_from_them(run, tmp_path):
    run = {**changed(run, TRANSFORMER_XL), "dropout": 0.0, "schedule": "epochs", "epochs": 1}
    (tmp_path / "two.py").write_text(TWO_PROCESSES)
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, tmp_path / "two.py", json.dumps(run), tmp_path / "output"]
    two = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert two.returncode == 0, two.stderr
    lines = [line for line in two.stderr.splitlines() if line.startswith("[tiny] ")]
    assert len(lines) == len(set(lines))  # the first process alone speaks

    def perplexity(folder):
        return json.loads((tmp_path / folder / "record.json").read_text())["perplexity"]["test"]

    train(run, tmp_path / "one")
    assert perplexity("one") == pytest.approx(perplexity("output"), rel=1e-4)
    for folder in ("one", "output"):
        train({**run, "epochs": 2}, tmp_path / folder)
    assert perplexity("one") == pytest.approx(perplexity("output"), rel=1e-4)


@pytest.mark.slow
def test_script_goes_on_after_a_kill_and_prints_only_its_own_lines(run, tmp_path, capsys):
    run |= {"epochs": 20, "save_every": 10}
    with start_script(run, tmp_path) as process:
        while process.poll() is None and not checkpoints(tmp_path / "output" / "checkpoints"):
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "output" / "record.json").exists()

    with start_script(run, tmp_path) as process:
        output, messages = process.communicate()
    assert process.returncode == 0, messages
    assert output == ""
    lines = messages.splitlines()
    assert lines[0].startswith("[tiny] going on from step ")
    assert all(line.startswith("[tiny] ") for line in lines)
    assert any("(100%)" in line and "tokens/s, perplexity" in line for line in lines)
    assert "lightning" in (tmp_path / "log" / "run.log").read_text()
    record = json.loads((tmp_path / "output" / "record.json").read_text())
    batches = BpttBatches(np.load(tmp_path / "output" / "data" / "train.npy"), 4, 10)
    assert record["steps"] == 20 * len(batches)
    assert [attempt["from_step"] > 0 for attempt in record["tries"]] == [False, True]
    assert [entry["epoch"] for entry in record["validation"]] == list(range(1, 21))


@pytest.mark.slow
def test_a_full_disk_keeps_the_checkpoint_before(run, tmp_path):
    folder = tmp_path / "output" / "checkpoints"
    with start_script({**run, "epochs": 1_000_000, "save_every": 10}, tmp_path) as process:
        while process.poll() is None and not checkpoints(folder):
            time.sleep(0.01)
        limit = checkpoints(folder)[0].stat().st_size // 2
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        _, messages = process.communicate()
    assert process.returncode == 2, messages
    assert "can't be written (File too large); what was saved before is whole" in messages
    assert "Traceback" not in messages
    assert not list(folder.glob(".*.part"))
    assert lm_checkpoints(folder).newest_valid() is not None


def test_command_line_trains_and_evaluates(run, tmp_path, capsys):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())

    def call(*words):
        arguments = parser.parse_args(["lm", *map(str, words)])
        arguments.function(arguments)

    output = tmp_path / "output"
    call("train", "--config", tmp_path / "run.yaml", "--output", output)
    call("evaluate", output / "model.pt", run["test"], "--output", tmp_path / "score.json")
    score = json.loads((tmp_path / "score.json").read_text())
    record = json.loads((output / "record.json").read_text())
    assert score["perplexity"] == pytest.approx(record["perplexity"]["test"])
    assert score["tokens"] == record["tokens"]["test"]
    assert (output / "training.log").exists()

    with pytest.raises(UserError, match=r"run\.yaml: not readable .* expected a trained model"):
        call("evaluate", tmp_path / "run.yaml", run["test"], "--output", tmp_path / "score.json")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"hiden_size": 128}, ["unknown key 'hiden_size'", "'hidden_size'"]),
        ({"unit": {**UNIT, "dept": 7}}, ["unknown key 'unit.dept'", "'depth'"]),
        ({"epochs": "two"}, ["epochs is 'two', expected integer"]),
        ({"epochs": 0}, ["epochs", "0 is less than the minimum of 1"]),
        (
            {"fine_tuning_epochs": 9, "epochs": 2},
            ["fine_tuning_epochs is 9, expected at most epoch"],
        ),
        ({"seed": True}, ["seed is True, expected integer"]),
        ({"dropout": 1}, ["dropout", "1 is greater than or equal to the maximum of 1"]),
        ({"learning_rate": "1e-3"}, ["learning_rate is '1e-3', expected number", "1.0e-3"]),
        ({"optimizer": "adams"}, ["optimizer is 'adams', expected one of", "'adam'"]),
        ({"unit": {"output_dim": 8}}, ["unit lacks the key 'expand_dim'"]),
        ({"heads": 2}, ["heads is for transformer-xl, but model is 'lstm', leave it out"]),
        ({"model": "transformer-xl"}, ["hidden_size is for lstm and awd-lstm"]),
        ({"hidden_size": 10**6}, ["hidden_size: 1000000 is greater than the maximum of 65536"]),
        ({"layers": 10**9}, ["layers: 1000000000 is greater than the maximum of 1000"]),
        ({"seed": 2**64}, ["seed: ", "is greater than the maximum of 4294967295"]),
        ({"learning_rate": 1e308}, ["learning_rate: 1e+308 is greater than the maximum"]),
        ({"gradient_clip": 10**400}, ["gradient_clip: ", "is greater than the maximum of 1000000"]),
        ({"bptt": 10**30}, ["bptt: ", "is greater than the maximum of 2147483647"]),
        ({"paper": 3}, ["paper is 3, expected string or null"]),
        ({"paper": ["table1a/R3"]}, ["paper is ['table1a/R3'], expected string or null"]),
        ({"paper": "table1a/R9"}, ["the paper has no row 'table1a/R9', did you mean"]),
        (
            {"classifier": {"type": "adaptive"}},
            ["classifier lacks the key 'cutoffs'"],
        ),
    ],
)
def test_a_bad_run_file_is_refused_in_one_sentence(run, changes, parts):
    with pytest.raises(UserError) as error:
        complete_run({**run, **changes}, "my/run.yaml")
    for part in ["my/run.yaml", *parts]:
        assert part in str(error.value)


def test_a_missing_key_is_named(run):
    del run["bptt"]
    with pytest.raises(UserError, match="'bptt'"):
        complete_run(run, "run.yaml")


def test_defaults_are_filled_in(run):
    defaults = {"min_count": 1, "classifier": None, "weight_decay": 0, "precision": "float32"}
    defaults |= {"schedule": "epochs", "average_after": None, "vocabulary_size": None}
    for key in defaults:
        run.pop(key)
    settings = complete_run(run, "run.yaml")
    classifier = {"type": "softmax", "tied": True, "cutoffs": [], "factor": 1, "bias": True}
    assert settings == {**run, **defaults, "classifier": classifier}
    assert "input_dropout" not in settings  # an AWD-LSTM's


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is visible")
def test_a_gpu_that_is_not_there_is_refused_before_any_work(run, tmp_path):
    require_gpus(0)
    with pytest.raises(UserError, match="no CUDA device is visible, expected one"):
        require_gpus(1)
    with start_script(run, tmp_path, "--gpus", "1") as process:
        _, messages = process.communicate()
    assert process.returncode == 2
    assert messages.startswith("error: training tiny asks for 1 GPU, but none is visible")
    assert messages.count("\n") == 1
    assert not (tmp_path / "output").exists()


def test_two_trainings_in_one_folder_are_refused(run, tmp_path):
    with (
        FileLock(tmp_path / ".training.lock"),
        pytest.raises(UserError, match="another process is training"),
    ):
        train(run, tmp_path)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible")
@pytest.mark.parametrize("changes", [AWD_LSTM, TRANSFORMER_XL])
def test_training_on_a_gpu_goes_on_in_the_middle_of_an_epoch(run, tmp_path, monkeypatch, changes):
    run = changed(run, changes)
    monkeypatch.setattr(checkpoints_module, "KEPT_CHECKPOINTS", 100)
    train(run, tmp_path / "whole", gpus=1)
    expected = result(tmp_path / "whole")[1]["perplexity"]["test"]
    for checkpoint in checkpoints(tmp_path / "whole" / "checkpoints")[1:-1:2][:3]:
        output = tmp_path / checkpoint.stem
        (output / "checkpoints").mkdir(parents=True)
        shutil.copy(checkpoint, output / "checkpoints")
        train(run, output, gpus=1)
        assert result(output)[1]["perplexity"]["test"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible")
def test_training_on_a_gpu_goes_on_after_a_stop(run, tmp_path):
    train({**run, "epochs": 1}, tmp_path / "output", gpus=1)
    train(run, tmp_path / "output", gpus=1)
    train(run, tmp_path / "whole", gpus=1)
    _, expected = result(tmp_path / "whole")
    _, record = result(tmp_path / "output")
    assert record["device"] == f"1 x {torch.cuda.get_device_name()}"
    assert record["steps"] == expected["steps"]
    assert record["perplexity"]["test"] == pytest.approx(expected["perplexity"]["test"], rel=1e-4)
    model, *_ = load_model(tmp_path / "output" / "model.pt")
    assert next(model.parameters()).device.type == "cpu"


def test_a_compressed_model_is_scored_like_the_one_it_was_made_of(run, tmp_path):
    """24 tokens or fewer and 512 codewords: the perplexity stays, and so does the text's."""
    from onmt_define.compression.model_file import compress_file
    from onmt_define.compression.record import describe
    from onmt_define.compression.scoring import check_files, score

    train(run, tmp_path / "out")
    model, compressed = tmp_path / "out" / "model.pt", tmp_path / "compressed.pt"
    check_files(model, [run["test"]])
    record = compress_file(model, compressed, 8, 16, 100, 1)
    record["score"] = score(model, compressed, [run["test"]])
    assert record["score"]["after"] == pytest.approx(record["score"]["before"], rel=0.01)
    assert all(time > 0 for time in record["score"]["ms_per_batch"].values())
    assert "ms for 128 tokens" in describe(record)
    layer = load_model(compressed)[0].input_layer
    assert "packed_codes" in layer.state_dict()
    assert not any("unit" in name for name in layer.state_dict())
    with pytest.raises(UserError, match="names 2 files, expected one text"):
        check_files(model, [run["test"], run["test"]])
    saved = torch.load(compressed, weights_only=True)
    saved["compression"]["num_embeddings"] = 10**15
    torch.save(saved, compressed)
    with pytest.raises(UserError, match="expected a trained model"):
        load_model(compressed)

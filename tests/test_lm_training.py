"""Training, evaluation, resuming and the command line of the language models."""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from filelock import FileLock

from onmt_define.errors import UserError
from onmt_define.lm import training
from onmt_define.lm.commands import add_commands, read_run, require_gpus
from onmt_define.lm.evaluation import load_model, perplexity
from onmt_define.lm.lstm import build_model
from onmt_define.lm.training import BpttBatches, checkpoints, train

SCRIPT = Path(__file__).parents[1] / "scripts" / "train_language_model.py"
DEFINE = {
    "type": "define",
    "dim": 16,
    "map_dim": 8,
    "expand_dim": 16,
    "depth": 3,
    "max_groups": 4,
}


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
    return {
        **texts,
        "run": "tiny",
        "seed": 1,
        "corpus": "colours",
        "model": "lstm",
        "embedding": DEFINE,
        "hidden_size": 16,
        "layers": 2,
        "dropout": 0.2,
        "bptt": 10,
        "batch_size": 4,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "decay_epoch": 1,
        "decay_factor": 0.5,
        "gradient_clip": 1.0,
        "epochs": 2,
        "save_every": 4,
        "min_count": 1,
        "vocabulary_size": None,
    }


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
    assert [starts for *_, starts in batches] == [True, False]
    inputs = torch.cat([inputs for inputs, *_ in batches])
    targets = torch.cat([targets for _, targets, _ in batches])
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


def test_more_streams_than_tokens_are_refused():
    with pytest.raises(UserError, match="batch_size is 8, expected at most 5"):
        BpttBatches(np.arange(10, dtype=np.int32), batch_size=8, bptt=4)


@pytest.mark.parametrize("embedding", [{"type": "standard", "dim": 8}, DEFINE])
def test_perplexity_equals_a_plain_loop_over_all_tokens(embedding):
    torch.manual_seed(1)
    settings = {"embedding": embedding, "hidden_size": 12, "layers": 2, "dropout": 0.5}
    model = build_model(settings, vocabulary_size=20)
    ids = np.random.default_rng(1).integers(20, size=300).astype(np.int32)

    total, previous, state = 0.0, 3, None
    model.eval()
    with torch.no_grad():
        for token in ids.tolist():
            hidden, state = model.context(model.input_layer(torch.tensor([[previous]])), state)
            scores = hidden[0, 0].double() @ model.output_layer.linear.weight.double().t()
            total -= torch.log_softmax(scores, 0)[token].item()
            previous = token
    model.train()

    expected = math.exp(total / 300)
    assert perplexity(model, ids, eos=3) == pytest.approx(expected, rel=1e-6)
    assert model.training


def test_perplexity_is_the_same_for_batches_of_one_and_ten():
    torch.manual_seed(1)
    settings = {
        "embedding": {"type": "standard", "dim": 16},
        "hidden_size": 16,
        "layers": 2,
        "dropout": 0.0,
    }
    model = build_model(settings, vocabulary_size=20)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ids = np.random.default_rng(1).integers(20, size=5003).astype(np.int32)
    exact = perplexity(model, ids, eos=0)
    for warm_up, equal in ((50, True), (0, False)):
        value = perplexity(model, ids, eos=0, batch_size=10, warm_up=warm_up)
        assert (value == pytest.approx(exact, rel=1e-6)) is equal
    assert perplexity(model, ids, eos=0, batch_size=10) == exact  # too short to be cut


def test_training_learns_and_leaves_a_complete_record(run, tmp_path):
    output = tmp_path / "output"
    train({**run, "epochs": 12, "dropout": 0.0, "decay_epoch": None}, output)
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
    assert {"python", "torch", "lightning", "onmt_define"} == set(record["versions"])
    assert record["device"] == "CPU, 1 thread"
    assert len(checkpoints(output / "checkpoints")) == 2

    model, settings, vocabulary = load_model(output / "model.pt")
    assert settings["run"] == "tiny"
    assert len(vocabulary) == 6
    assert not model.training


def test_learning_rate_decays_after_the_given_epoch(run, tmp_path):
    train({**run, "epochs": 4, "decay_epoch": 2}, tmp_path / "output")
    curve = json.loads((tmp_path / "output" / "record.json").read_text())["learning_curve"]
    steps = curve[-1]["step"] // 4
    rates = [{p["learning_rate"] for p in curve if (p["step"] - 1) // steps == e} for e in range(4)]
    assert rates == [{0.01}, {0.01}, {0.005}, {0.0025}]


def test_training_goes_on_from_every_checkpoint_as_if_never_stopped(run, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "KEPT_CHECKPOINTS", 100)
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


def test_more_epochs_continue_but_other_settings_are_refused(run, tmp_path):
    output = tmp_path / "output"
    train({**run, "epochs": 1}, output)
    steps = json.loads((output / "record.json").read_text())["steps"]
    train({**run, "epochs": 3}, output)
    assert json.loads((output / "record.json").read_text())["steps"] == 3 * steps
    with pytest.raises(UserError, match="made with hidden_size: 16, but the run says 32"):
        train({**run, "hidden_size": 32}, output)
    with open(run["train"], "a") as file:
        file.write("red\n")
    with pytest.raises(UserError, match="made with another train text"):
        train(run, output)


def test_a_loss_that_is_no_number_stops_with_its_step(run, tmp_path):
    run |= {"optimizer": "sgd", "learning_rate": 1e30, "gradient_clip": 0}
    with pytest.raises(UserError, match=r"run tiny: the loss is (nan|inf) at step [23], expected"):
        train(run, tmp_path / "output")
    assert not (tmp_path / "output" / "record.json").exists()


def test_sigterm_saves_and_leaves_with_its_status(run, tmp_path, capsys):
    run |= {"epochs": 1_000_000, "save_every": 1_000_000}
    folder = tmp_path / "output" / "checkpoints"

    def terminate_after_the_first_epoch():
        while not checkpoints(folder):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=terminate_after_the_first_epoch, daemon=True).start()
    with pytest.raises(SystemExit) as stopped:
        train(run, tmp_path / "output")
    assert stopped.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    step = int(checkpoints(folder)[0].stem.removeprefix("step-"))
    assert f"stopped by SIGTERM after step {step:,}" in capsys.readouterr().err


def start_script(run, tmp_path, *arguments):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    command = [sys.executable, SCRIPT, "--config", tmp_path / "run.yaml"]
    command += ["--output", tmp_path / "output", "--log", tmp_path / "log" / "run.log", *arguments]
    search_path = f"{SCRIPT.parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": search_path}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


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
        ({"embedding": {**DEFINE, "dept": 7}}, ["unknown key 'embedding.dept'", "'depth'"]),
        ({"epochs": "two"}, ["epochs is 'two', expected integer"]),
        ({"epochs": 0}, ["epochs", "0 is less than the minimum of 1"]),
        ({"seed": True}, ["seed is True, expected integer"]),
        ({"dropout": 1}, ["dropout", "1 is greater than or equal to the maximum of 1"]),
        ({"learning_rate": "1e-3"}, ["learning_rate is '1e-3', expected number", "1.0e-3"]),
        ({"optimizer": "adams"}, ["optimizer is 'adams', expected one of", "'adam'"]),
        ({"embedding": {"type": "define", "dim": 8}}, ["embedding lacks the key 'map_dim'"]),
        (
            {"embedding": {"type": "standard", "dim": 8, "depth": 3}},
            ["embedding.depth is 3", "only embeddings of type define have it"],
        ),
    ],
)
def test_a_bad_run_file_is_refused_in_one_sentence(run, tmp_path, changes, parts):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**run, **changes}))
    with pytest.raises(UserError) as error:
        read_run(path)
    for part in [str(path), *parts]:
        assert part in str(error.value)


def test_a_missing_key_is_named(run, tmp_path):
    del run["bptt"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    with pytest.raises(UserError, match="'bptt'"):
        read_run(tmp_path / "run.yaml")


def test_defaults_are_filled_in(run, tmp_path):
    for key in ("min_count", "vocabulary_size", "decay_epoch", "decay_factor"):
        del run[key]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    settings = read_run(tmp_path / "run.yaml")
    assert settings == {
        **run,
        "min_count": 1,
        "vocabulary_size": None,
        "decay_epoch": None,
        "decay_factor": 0.5,
    }


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
    assert "perplexity" in describe(record)
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

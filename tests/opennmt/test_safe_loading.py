"""No command runs what is pickled in a checkpoint, and every one says in a sentence why not."""

import argparse
import builtins
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from onmt_define.errors import UserError
from onmt_define.opennmt.checkpoint_files import load

pytestmark = pytest.mark.slow

OPTIMIZERS = ("sgd", "adagrad", "adadelta", "adafactor", "adam")


class Hostile:
    """Pickles as a call that leaves a file behind when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def hostile_checkpoints(good, trace):
    """Name, the class that must be named, and a checkpoint that makes `trace` if it is run."""
    touch = f"touch '{trace}'"
    os_system = Hostile(os.system, touch)
    options = argparse.Namespace(**vars(good["opt"]))
    options.data = {"train": {"path_src": Hostile(builtins.eval, f"open({str(trace)!r}, 'w')")}}
    state = {**good["optim"], "optimizer": {"state": {0: Hostile(os.mkdir, str(trace))}}}
    yield "system", f"{os.name}.system", {**good, "extra": os_system}
    yield "eval", "builtins.eval", {**good, "vocab": Hostile(eval, f"open({str(trace)!r}, 'w')")}
    yield "process", "subprocess.Popen", {**good, "z": Hostile(subprocess.Popen, ["touch", trace])}
    yield "options", "builtins.eval", {**good, "opt": options}
    yield "optimizer", f"{os.name}.mkdir", {**good, "optim": state}


def commands_that_load(path, folder):
    """Every command that reads a checkpoint, each with the arguments that make it read `path`."""
    server = folder / "server.json"
    server.write_text(
        json.dumps(
            {"models_root": str(path.parent), "models": [{"id": 1, "model": path.name, "opt": {}}]}
        )
    )
    output = folder / "output"
    return {
        "translate": ("-model", path, "-src", "valid.src", "-output", output),
        "train": ("-config", "train.yaml", "-train_from", path, "-save_model", output),
        "average_models": ("-models", path, path, "-output", output),
        "release_model": ("--model", path, "--output", output),
        "server": ("--model_config", server),
        "fold": (path, "--output", output),
    }


@pytest.fixture
def run(stock, command):
    """Run a stock command or `onmt_define fold` in this process."""

    def run(name, *arguments):
        return command(name, *arguments) if name == "fold" else stock(name, *arguments)

    return run


@pytest.mark.parametrize("trusting", [False, True], ids=["", "weights-only switched off"])
@pytest.mark.parametrize("attack", ["system", "eval", "process", "options", "optimizer"])
def test_hostile_checkpoints_are_refused(trained, run, tmp_path, monkeypatch, attack, trusting):
    if trusting:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    trace, path = tmp_path / "trace", tmp_path / "evil.pt"
    good = load(trained[0] / "model_step_10.pt")
    named, checkpoint = next(
        (named, checkpoint)
        for name, named, checkpoint in hostile_checkpoints(good, trace)
        if name == attack
    )
    torch.save(checkpoint, path)
    for command, arguments in commands_that_load(path, tmp_path).items():
        status, printed = run(command, *arguments)
        assert status == 2, (command, printed)
        assert f"error: {path} holds an object of {named}, which no checkpoint" in printed, command
        assert "Traceback" not in printed, command
        assert not trace.exists(), command
        assert not (tmp_path / "output").exists(), command


def test_the_attacks_would_work(trained, tmp_path):
    """Loaded without the check, each of them leaves its trace: the test above can fail."""
    good = load(trained[0] / "model_step_10.pt")
    for name, _, checkpoint in hostile_checkpoints(good, tmp_path / "trace"):
        torch.save(checkpoint, tmp_path / "evil.pt")
        torch.load(tmp_path / "evil.pt", weights_only=False)
        subprocess.run(["sleep", "0.1"], check=True)  # Popen's child
        trace = tmp_path / "trace"
        assert trace.exists(), name
        trace.rmdir() if trace.is_dir() else trace.unlink()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<!DOCTYPE html>\n<title>404</title>", "begins with '<!DOCTYPE html>', expected a ch"),
        (b"", "is empty, expected a checkpoint of OpenNMT-py"),
        (None, "is damaged or cut short"),
        ({"weights": 1}, "isn't a checkpoint of OpenNMT-py: it holds the entries weights"),
        ([1, 2], "isn't a checkpoint of OpenNMT-py: it holds a list"),
        (
            {"opt": {"a": 1}, "vocab": {}, "model": {}},
            "isn't a whole checkpoint of OpenNMT-py: opt",
        ),
        ("missing", "there is no file"),
        ("folder", "can't be read: Is a directory"),
    ],
    ids=["html", "empty", "truncated", "other", "list", "options", "missing", "folder"],
)
def test_files_that_are_no_checkpoint(trained, run, tmp_path, content, sentence):
    path = tmp_path / "model.pt"
    if content is None:
        path.write_bytes((trained[0] / "model_step_10.pt").read_bytes()[:-5000])
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "folder":
        path.mkdir()
    elif content != "missing":
        torch.save(content, path)
    for command, arguments in commands_that_load(path, tmp_path).items():
        status, printed = run(command, *arguments)
        assert status == 2, (command, printed)
        by_server = command == "server" and "model.pt from model 1 does not exist" in printed
        assert printed.count(sentence) == 1 or by_server, (command, printed)
        assert str(path) in printed
        assert "Traceback" not in printed


MAP = "encoder.embeddings.make_embedding.emb_luts.0.unit.maps.0.kernel"


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda found: found["model"].pop(MAP), "Missing key in checkpoint: "),
        (lambda found: found["model"].update(extra=torch.ones(1)), "Extra keys in model state"),
        (lambda found: found["model"].update({MAP: torch.ones(2, 2)}), "slice"),
        (lambda found: found["vocab"].clear(), "vocab holds the entries of an empty dict"),
        (lambda found: found["vocab"].update(src=["a"]), "Padding_idx"),
        (lambda found: found.update(generator=None), "holds no weights of a whole model"),
        (lambda found: found["model"].clear(), "holds no weights of a whole model"),
        (lambda found: vars(found["opt"]).update(embedding_type="nosuch"), "nosuch"),
        (lambda found: vars(found["opt"]).update(layers=3, enc_layers=3), "Missing key"),
        (lambda found: vars(found["opt"]).update(heads=3), "heads is 3"),
    ],
)
@pytest.mark.parametrize("command", ["translate", "train"])
def test_damaged_models_are_named(trained, run, tmp_path, command, damage, sentence):
    path = tmp_path / "damaged.pt"
    checkpoint = load(trained[0] / "model_step_10.pt")
    damage(checkpoint)
    torch.save(checkpoint, path)
    status, printed = run(command, *commands_that_load(path, tmp_path)[command])
    assert status == 2, printed
    assert sentence in printed
    assert str(path) in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "output").exists()


def test_a_checkpoint_of_stock_opennmt_loads_translates_and_resumes(
    toy, stock, stock_alone, tmp_path
):
    """Trained without the plug-in, to which the keys of the toy's configuration say nothing."""
    steps = ("-train_steps", "2", "-save_checkpoint_steps", "2")
    alone = stock_alone(
        *("onmt.bin.train", "-config", "train.yaml", "-save_model", tmp_path / "m", *steps), cwd=toy
    )
    assert alone.returncode == 0, alone.stderr
    model = tmp_path / "m_step_2.pt"
    assert not hasattr(load(model)["opt"], "embedding_type")
    assert "encoder.embeddings.make_embedding.emb_luts.0.weight" in load(model)["model"]
    settings = ("-model", model, "-src", "valid.src", "-output", tmp_path / "hyp")
    status, printed = stock("translate", *settings)
    assert status == 0, printed
    resumed = ("-config", "train.yaml", "-train_from", model, "-save_model", tmp_path / "r")
    going_on = ("-embedding_type", "standard", "-train_steps", "3")
    status, printed = stock("train", *resumed, *going_on)
    assert status == 0, printed
    assert "embedding_type standard" in printed


@pytest.mark.parametrize("protocol", range(6))
def test_the_class_is_named_whatever_the_protocol(tmp_path, protocol, recwarn):
    path = tmp_path / "evil.pt"
    path.write_bytes(pickle.dumps(Hostile(os.system, f"touch {tmp_path / 'trace'}"), protocol))
    with pytest.raises(UserError, match=rf"{path} holds an object of {os.name}\.system"):
        load(path)
    assert not (tmp_path / "trace").exists()
    assert not recwarn.list


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_can_be_resumed(toy, stock, tmp_path, optimizer):
    first = ("-optim", optimizer, "-save_model", tmp_path / "m", "-train_steps", "2")
    assert stock("train", "-config", "train.yaml", *first)[0] == 0
    resumed = ("-train_from", tmp_path / "m_step_2.pt", "-train_steps", "3")
    status, printed = stock("train", "-config", "train.yaml", *first[:4], *resumed)
    assert status == 0, printed
    state = load(tmp_path / "m_step_3.pt")["optim"]
    assert state["training_step"] == 4
    assert state["optimizer"]["param_groups"]


def test_half_precision_and_gradient_scaler(trained, stock, tmp_path):
    """What a GPU training in fp16 and apex's FusedAdam leave in a checkpoint."""
    checkpoint = load(trained[0] / "model_step_20.pt")
    checkpoint["model"] = {name: value.half() for name, value in checkpoint["model"].items()}
    checkpoint["generator"] = {k: value.half() for k, value in checkpoint["generator"].items()}
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    parameters = [torch.nn.Parameter(torch.ones(2).half())]
    checkpoint["optim"] = {
        **checkpoint["optim"],
        "scaler": scaler.state_dict(),
        "growth": scaler._growth_tracker,
        "fp32_groups": [[torch.nn.Parameter(torch.ones(2))]],
        "optimizer": {
            "cur_scale": 65536.0,
            "optimizer_state_dict": torch.optim.Adam(parameters, fused=True).state_dict(),
        },
    }
    torch.save(checkpoint, tmp_path / "half.pt")
    assert load(tmp_path / "half.pt")["optim"]["scaler"]["scale"] == 65536.0
    status, printed = stock(
        *("translate", "-model", tmp_path / "half.pt", "-src", "valid.src"),
        *("-output", tmp_path / "hyp"),
    )
    assert status == 0, printed
    assert (tmp_path / "hyp").read_text().count("\n") == 20


def test_training_in_half_precision(toy, stock, tmp_path):
    settings = ("-config", "train.yaml", "-model_dtype", "fp16", "-save_model", tmp_path / "m")
    status, printed = stock("train", *settings, "-train_steps", "2")
    assert status == 0, printed
    resumed = ("-train_from", tmp_path / "m_step_2.pt", "-train_steps", "3")
    status, printed = stock("train", *settings, *resumed)
    assert status == 0, printed


def test_only_the_options_class_is_allowed():
    """Whatever is imported of OpenNMT-py, nothing but its options' class joins torch's list."""
    code = (
        "import onmt.bin.train, onmt.bin.translate, onmt.bin.server, torch;"
        "print(*(c.__module__ + '.' + c.__name__ for c in torch.serialization.get_safe_globals()))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    allowed = [name for name in printed.stdout.split() if not name.startswith("torch.")]
    assert allowed == ["argparse.Namespace"], printed.stderr


def test_a_class_of_a_checkpoint_of_version_2_is_named(tmp_path):
    checkpoint = {"opt": argparse.Namespace(), "vocab": Path("x"), "model": {}}
    torch.save(checkpoint, tmp_path / "old.pt")
    with pytest.raises(UserError, match="holds an object of pathlib"):
        load(tmp_path / "old.pt")


def test_spawned_workers_never_see_a_hostile_checkpoint(trained, stock, tmp_path):
    """The parent refuses it: a worker's error would arrive as a traceback."""
    good, path = load(trained[0] / "model_step_10.pt"), tmp_path / "evil.pt"
    torch.save({**good, "extra": Hostile(os.mkdir, str(tmp_path / "trace"))}, path)
    two = ("-world_size", "2", "-gpu_ranks", "0", "1")
    settings = ("-config", "train.yaml", "-train_from", path)
    status, printed = stock("train", *settings, *two)
    assert status == 2
    assert f"error: {path} holds an object of {os.name}.mkdir" in printed
    parallel = ("-parallel_mode", "tensor_parallel", "-src", "valid.src")
    status, printed = stock("translate", "-model", path, *parallel, *two)
    assert status == 2
    assert f"error: {path} holds an object of {os.name}.mkdir" in printed
    model = trained[0] / "model_step_10.pt"
    status, printed = stock("translate", "-model", model, *parallel, *two)
    assert status == 2
    assert "parallel_mode tensor_parallel can't be combined with embedding_type define" in printed
    assert not (tmp_path / "trace").exists()

"""Unfit files, devices and checkpoints: the stock commands name each in one sentence."""

import logging
import subprocess
import sys

import pytest
import yaml

pytestmark = pytest.mark.slow

NO_FILE = {"path_src": "nowhere.src", "path_tgt": "train.tgt"}
EMPTY = {"path_src": "empty", "path_tgt": "empty"}


@pytest.fixture
def refused(toy, stock, tmp_path, monkeypatch):
    """Run a command that has to end with one sentence and leave nothing in `tmp_path`."""
    # OpenNMT-py's log still goes to the stream of the test before.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    (toy / "empty").touch()
    (toy / "blank").write_text("\n \n")
    (toy / "white").write_text("word\t5\n\xa0\t3\n", encoding="utf-8")

    def run(command, *arguments, **changes):
        config = yaml.safe_load((toy / "train.yaml").read_text())
        config["save_model"] = str(tmp_path / "model")
        if command == "build_vocab":
            config.update(src_vocab=str(tmp_path / "s"), tgt_vocab=str(tmp_path / "t"))
        (toy / "bad.yaml").write_text(yaml.safe_dump({**config, **changes}))
        if command != "translate":
            arguments = ("-config", "bad.yaml", *arguments)
        status, printed = stock(command, *arguments)
        assert status == 2, printed
        assert "Traceback" not in printed
        assert not list(tmp_path.iterdir())
        return printed

    return run


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"src_vocab": "nowhere"}, "src_vocab: there is no file nowhere"),
        ({"tgt_vocab": "empty"}, "tgt_vocab: empty is empty or blank, expected text"),
        ({"tgt_vocab": "blank"}, "tgt_vocab: blank is empty or blank, expected text"),
        ({"src_vocab": "."}, "src_vocab: . isn't a file, expected text"),
        (
            {"src_vocab": "white"},
            r"src_vocab: white, line 2 is '\xa0\t3', expected a token, a tab and its count",
        ),
        ({"data": {"train": NO_FILE}}, "data.train.path_src: there is no file nowhere.src"),
        ({"data": {"train": EMPTY}}, "data.train.path_src: empty is empty or blank, expected text"),
        ({"data": "train.src"}, "data is 'train.src', expected names of corpora with path_src"),
        ({"data": {"train": {"weight": 1}}}, "data.train is {'weight': 1}, expected path_src"),
        ({"gpu_ranks": [0]}, "gpu_ranks is [0], but 0 GPUs are visible here; leave it out"),
        ({"train_from": "."}, "error: . can't be read: Is a directory"),
        ({"embedding_type": "standard", "word_vec_size": 8}, "word_vec_size is 8, but a Transfo"),
        ({"encoder_type": "transfomer"}, "encoder_type is 'transfomer', expected one of ggnn, rn"),
        ({"report_every": 0}, "report_every is 0, expected 1 to 1,000,000,000"),
        ({"share_embeddings": True}, "-share_vocab if you use share_embeddings"),
        ({"lora_layers": ["nosuch"], "lora_rank": 2}, "lora_layers is ['nosuch'] with lora_rank 2"),
        ({"max_relative_positions": 4}, "Cannot use absolute and relative position encoding"),
        ({"save_model": "train.src/m"}, "save_model is train.src/m, but train.src is a file"),
    ],
)
def test_training(refused, changes, sentence):
    assert sentence in refused("train", **changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data": {"train": NO_FILE}}, "data.train.path_src: there is no file nowhere.src"),
        ({"data": {"train": EMPTY}}, "data.train.path_src: empty is empty or blank, expected text"),
        ({"data": {"train": {"weight": 1}}}, "data.train is {'weight': 1}, expected path_src"),
        ({"n_sample": 1}, "n_sample is 1, expected at least 2, or -1 for all"),
        ({"tgt_vocab": "no/t"}, "tgt_vocab is no/t, but there is no folder no"),
    ],
)
def test_building_a_vocabulary(refused, changes, sentence):
    assert sentence in refused("build_vocab", **{"n_sample": -1, **changes})


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("src", "nowhere", "src: there is no file nowhere"),
        ("src", "empty", "src: empty is empty or blank, expected text"),
        ("src", "blank", "src: blank is empty or blank, expected text"),
        ("src", "features", "src: features, line 2 has the character U+FFE8"),
        ("tgt", "nowhere", "tgt: there is no file nowhere"),
        ("gpu", "0", "gpu is 0, but 0 GPUs are visible here; leave it out"),
        ("world_size", "2", "world_size is 2, but gpu_ranks is [], expected a GPU for each"),
        ("model", "nowhere.pt", "there is no file nowhere.pt"),
        ("output", "no/folder/hyp", "output is no/folder/hyp, but there is no folder no/folder"),
    ],
)
def test_translating(trained, refused, tmp_path, option, value, sentence):
    (trained[0] / "features").write_text("w1 w2\nw1￨x w2\n", encoding="utf-8")
    options = {"model": "model_step_20.pt", "src": "valid.src", "output": tmp_path / "hyp"}
    arguments = [
        text for name, path in {**options, option: value}.items() for text in (f"-{name}", path)
    ]
    assert sentence in refused("translate", *arguments)


def test_an_option_of_older_versions(refused):
    printed = refused("translate", "-model", "model_step_20.pt", "-src", "valid.src", "-int8")
    assert "Flag '-int8' is deprecated. Deprecated use 'precision' instead" in printed


def test_a_failed_translation_leaves_the_output_as_it_was(trained, stock, tmp_path):
    output = tmp_path / "hyp"
    output.write_text("an earlier translation\n")
    arguments = ("-src", "valid.src", "-output", output)
    assert stock("translate", "-model", "train.src", *arguments)[0] == 2
    assert output.read_text() == "an earlier translation\n"
    assert stock("translate", "-model", "model_step_20.pt", *arguments)[0] == 0
    assert output.read_text().count("\n") == 20


@pytest.mark.parametrize(
    ("changes", "arguments", "sentence"),
    [
        (
            {"embedding_type": "standard"},
            (),
            "embedding_type is standard, but model_step_10.pt was",
        ),
        ({}, ("--embedding_type", "projective"), "trained with embedding_type define and can only"),
        (
            {"define_map_dim": 8},
            (),
            "define_map_dim is 8, but model_step_10.pt was trained with de",
        ),
        ({}, ("-define_depth=2",), "define_depth is 2, but model_step_10.pt was trained with defi"),
        ({"define_dropout": 0.2}, (), "define_dropout is 0.2, but model_step_10.pt was trained wi"),
    ],
)
def test_going_on_with_another_embedding(trained, refused, changes, arguments, sentence):
    printed = refused("train", "-train_from", "model_step_10.pt", *arguments, **changes)
    assert sentence in printed


def test_going_on_without_naming_the_embedding(trained, stock, tmp_path):
    """Only an option that was set is compared, not its default."""
    config = yaml.safe_load((trained[0] / "train.yaml").read_text())
    plain = {key: value for key, value in config.items() if "define" not in str((key, value))}
    (trained[0] / "plain.yaml").write_text(yaml.safe_dump(plain))
    assert plain.keys() < config.keys()
    arguments = ("-train_from", "model_step_10.pt", "-save_model", tmp_path / "m")
    status, printed = stock("train", "-config", "plain.yaml", *arguments, "-train_steps", "11")
    assert status == 0, printed
    assert (tmp_path / "m_step_11.pt").exists()


def test_broken_yaml_is_one_line_and_torch_is_silent(toy, run_command):
    (toy / "broken.yaml").write_text("a: [1\nb: 2\n")
    result = run_command("onmt_train", "-config", "broken.yaml", cwd=toy)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "Couldn't parse config file" in result.stderr
    assert '"broken.yaml", line 2' in result.stderr


def test_only_warnings_about_opennmt_itself_are_silenced():
    code = (
        "import warnings, onmt.modules.sru;"
        "warnings.warn_explicit('mine', FutureWarning, 'mine.py', 1, 'my_module')"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert [line for line in output.stderr.split("\n") if "Warning" in line] == [
        "mine.py:1: FutureWarning: mine"
    ]

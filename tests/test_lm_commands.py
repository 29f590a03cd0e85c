"""`onmt_define lm` as its users type it, and the paper's rows as runs."""

import copy
import json
import random
import shutil
import sys

import pytest
import torch
import yaml
from paths import ROOT

from onmt_define.cli import main
from onmt_define.errors import UserError
from onmt_define.lm.data import EOS, SPLITS, Vocabulary
from onmt_define.lm.evaluation import save_model
from onmt_define.lm.model import build_model
from onmt_define.lm.paper_runs import is_language_model, paper_run
from onmt_define.lm.run_settings import check_run, complete_run
from onmt_define.paper.published import find_row, load_tables
from onmt_define.workflow.config import complete_config
from onmt_define.workflow.plan import language_model_settings

ROWS = [row for table in load_tables().values() for row in table.rows if is_language_model(row)]
SMALL = {
    **{"corpus": "colours", "map": {"dim": 16}, "classifier": {"cutoffs": [2, 4]}},
    "unit": {"input_dim": 16, "output_dim": 8, "expand_dim": 16, "max_groups": 4},
    **{"hidden_size": 16, "layers": 2, "bptt": 10, "batch_size": 4, "epochs": 1, "save_every": 99},
}


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `onmt_define` with some arguments; returns its exit status and what it printed."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["onmt_define", "lm", *map(str, words)])
        status = 0
        try:
            main()
        except SystemExit as exit_:
            status = exit_.code
        return status, capsys.readouterr()

    return run


@pytest.fixture
def texts(tmp_path):
    generator = random.Random(1)
    for split in ("train", "valid", "test"):
        lines = (" ".join(generator.choices("abcde", k=5)) for _ in range(40))
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_row_of_the_paper_is_trained_with_changes_and_scored(command, texts):
    (texts / "small.yaml").write_text(yaml.safe_dump(SMALL))
    output = texts / "output"
    arguments = ["--paper", "table1a/R3", "--config", texts / "small.yaml", "--texts", texts]
    status, printed = command("train", *arguments, "--seed", 7, "--output", output)
    assert (status, printed.out) == (0, ""), printed.err
    record = json.loads((output / "record.json").read_text())
    assert (record["run"], record["paper"], record["seed"]) == ("table1a-R3", "table1a/R3", 7)
    assert record["embedding"]["type"] == "adaptive + define"
    assert record["precision"] == "tf32"
    assert (output / "metrics").is_dir()
    assert list((output / "tensorboard").rglob("events.*"))

    scores = {}
    for name, options in {
        "plain": [],
        "cache": ["--cache-size", 20, "--cache-weight", 0.2],
        "dynamic": ["--dynamic-rate", 0.5],
    }.items():
        target = texts / f"{name}.json"
        model, text = output / "model.pt", texts / "test.txt"
        status, printed = command("evaluate", model, text, "--output", target, *options)
        assert (status, printed.err) == (0, "")
        scores[name] = json.loads(target.read_text())
    assert scores["plain"]["perplexity"] == pytest.approx(record["perplexity"]["test"])
    assert scores["plain"]["neural_cache"] is scores["plain"]["dynamic_evaluation"] is None
    assert scores["cache"]["neural_cache"] == {"size": 20, "weight": 0.2, "sharpness": 0.3}
    assert len({score["perplexity"] for score in scores.values()}) == 3

    target = texts / "score.json"
    status, printed = command("evaluate", model, text, "--output", target, "--memory", 5)
    assert status == 2
    assert "is an lstm, expected a transformer-xl" in printed.err
    assert not target.exists()


def test_texts_on_the_command_line_replace_those_of_the_run_file(command, texts, tmp_path):
    (texts / "small.yaml").write_text(yaml.safe_dump({**SMALL, "train": str(texts / "test.txt")}))
    arguments = ["--paper", "table1a/R3", "--config", texts / "small.yaml", "--texts", "nowhere"]
    status, printed = command("train", *arguments, "--output", tmp_path / "output")
    assert status == 2
    assert "error: nowhere/train.txt: no such file" in printed.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "error: --config or --paper is missing, expected a run file or a row of the paper"),
        (["--paper", "table1a/R3"], "error: --texts is missing, expected a folder with train.txt"),
        (
            ["--paper", "table1a/R30", "--texts", "."],
            "error: --paper table1a/R30: the paper has no row 'table1a/R30', did you mean",
        ),
        (
            ["--paper", "table1b/grave-lstm", "--texts", "."],
            "error: --paper table1b/grave-lstm: paper is 'table1b/grave-lstm', which is another "
            "work's model, expected one of the 53 rows from table1a/R1 to table8b/without-reduce",
        ),
        (
            ["--paper", "table3/define", "--texts", "."],
            "which isn't a language model trained here, expected one of the 53 rows",
        ),
        (["--paper", "table1a/R3", "--texts", "nowhere"], "error: nowhere/train.txt: no such file"),
        (["--config", "nowhere.yaml"], "error: can't read nowhere.yaml"),
        (
            ["--paper", "table2a/define-128", "--texts", ".", "--gpus", "64"],
            "error: --gpus",
        ),
    ],
)
def test_a_wrong_call_gets_one_sentence(command, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    status, printed = command("train", *arguments, "--output", "output")
    assert status == 2
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model.pt that holds what a training writes, untrained, and its content."""
    texts = dict.fromkeys(SPLITS, "-")
    settings = complete_run({"paper": "table1a/R3", **SMALL, **texts}, "row")
    tokens = [EOS, *"abcde"]
    path = tmp_path_factory.mktemp("model") / "model.pt"
    save_model(path, build_model(settings, len(tokens)), settings, Vocabulary(tokens))
    return path, torch.load(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda saved: saved["settings"].pop("run"), "it holds something else"),
        (lambda saved: saved["settings"].pop("seed"), "it holds something else"),
        (lambda saved: saved["vocabulary"].__setitem__(0, "x"), "it holds something else"),
        (
            lambda saved: [weight.fill_(float("nan")) for weight in saved["weights"].values()],
            "expected a finite number, from a model without broken weights",
        ),
    ],
)
def test_a_broken_model_is_named(command, model, texts, change, sentence):
    saved = copy.deepcopy(model[1])
    change(saved)
    path, target = texts / "broken.pt", texts / "score.json"
    torch.save(saved, path)
    status, printed = command("evaluate", path, texts / "test.txt", "--output", target)
    assert status == 2
    assert str(path) in printed.err
    assert sentence in printed.err
    assert not target.exists()


def test_dynamic_evaluation_that_explodes_is_told_what_to_lower(command, model, texts):
    rate = ("--dynamic-rate", 1e6, "--output", texts / "score.json")
    status, printed = command("evaluate", model[0], texts / "test.txt", *rate)
    assert (status, "lower --dynamic-rate" in printed.err) == (2, True), printed.err


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--paper", "table1a/R3", "--texts", "t", "--threads", 10**9),
        ("train", "--paper", "table1a/R3", "--texts", "t", "--seed", 10**30),
        ("evaluate", "model.pt", "text", "--threads", 10**30),
        ("evaluate", "model.pt", "text", "--memory", 10**30),
        ("evaluate", "model.pt", "text", "--cache-size", 10**30),
    ],
)
def test_a_number_that_nothing_could_hold_is_named(command, tmp_path, words):
    status, printed = command(*words, "--output", tmp_path / "output")
    assert status == 2
    assert f"{words[-1]} is more than" in printed.err


@pytest.mark.parametrize(
    ("option", "switch"),
    [
        ("--cache-weight", "--cache-size"),
        ("--cache-sharpness", "--cache-size"),
        ("--dynamic-decay", "--dynamic-rate"),
        ("--dynamic-chunk", "--dynamic-rate"),
    ],
)
def test_an_option_of_what_is_off_is_refused(command, model, tmp_path, option, switch):
    (tmp_path / "test.txt").write_text("a a\n")
    words = ("evaluate", model[0], tmp_path / "test.txt", "--output", tmp_path / "score.json")
    status, printed = command(*words, option, 1)
    expected = f"error: {option} says nothing without {switch}, expected both\n"
    assert (status, printed.err) == (2, expected)


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("model.pt", "--output is the model model.pt itself, expected another file"),
        ("test.txt", "--output is the text test.txt itself, expected another file"),
        ("folder", "--output is the folder folder, expected a file in it"),
        ("", "--output is the folder ., expected a file in it"),
    ],
)
def test_an_evaluation_overwrites_neither_model_nor_text(
    command, model, tmp_path, monkeypatch, output, sentence
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    shutil.copy(model[0], "model.pt")
    (tmp_path / "test.txt").write_text("a a\n")
    before = [(tmp_path / name).read_bytes() for name in ("model.pt", "test.txt")]
    status, printed = command("evaluate", "model.pt", "test.txt", "--output", output)
    assert (status, printed.err) == (2, f"error: {sentence}\n")
    assert [(tmp_path / name).read_bytes() for name in ("model.pt", "test.txt")] == before


@pytest.mark.parametrize("name", ["train", "evaluate"])
def test_help_teaches(command, name):
    status, printed = command(name, "--help")
    assert status == 0
    assert f"onmt_define lm {name} " in printed.out.split("examples:")[1]
    assert max(map(len, printed.out.splitlines())) <= 100


def test_the_run_file_in_the_help_is_a_run(command):
    _, printed = command("train", "--help")
    example = printed.out.split("run.schema.yaml:\n")[1].split("\n\n")[0]
    assert check_run(yaml.safe_load(example), "help")["unit"]["depth"] == 3


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_is_a_complete_run_that_says_what_the_paper_states(row):
    texts = {"train": "a", "valid": "b", "test": "c"}
    run = check_run({**paper_run(row.id), **texts}, row.id)
    assert (
        run["corpus"] == {10_000: "ptb", 267_735: "wikitext-103"}[row.settings["vocabulary_size"]]
    )
    if run["model"] == "lstm":
        stated = {"optimizer": "sgd", "learning_rate": 20, "bptt": 140, "batch_size": 60}
        stated |= {"epochs": 20, "decay_epochs": [15], "decay_factor": 0.1, "weight_decay": 0}
        stated |= {"layers": 4, "hidden_size": 1024}
        assert stated.items() <= run.items()


def test_awd_lstm_and_transformer_xl_have_the_settings_of_their_authors():
    awd = paper_run("table1c/awd-lstm-define")
    assert awd["unit"].items() >= {"output_dim": 400, "expand_dim": 1024, "depth": 7}.items()
    assert (awd["map"]["dim"], awd["hidden_size"], awd["layers"]) == (128, 1150, 3)
    assert (awd["weight_dropout"], awd["average_after"], awd["epochs"]) == (0.5, 5, 500)
    tuned = paper_run("table1c/awd-lstm-finetuned")
    assert (tuned["epochs"], tuned["fine_tuning_epochs"]) == (1000, 500)
    xl = paper_run("table2a/define-256")
    assert (xl["heads"], xl["head_dim"], xl["layers"]) == (10, 41, 16)
    assert xl["classifier"]["factor"] == 1
    assert xl["unit"].items() >= {"input_dim": 384, "expand_dim": 4096, "depth": 3}.items()


def test_a_configuration_names_a_row_and_changes_it():
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["compression"] = None  # of runs that these replace
    config["language_models"] = {
        "training": {"epochs": 3},
        "runs": [
            {"name": "xl", "paper": "table2a/define-64", "gpus": 4, "options": {"epochs": 2}},
            {"name": "tiny", "paper": "table1a/R3", "corpus": {"download": "wikitext-2"}},
        ],
    }
    config = complete_config(config, "my.yaml")
    assert config["language_models"]["runs"][0]["corpus"] == {"download": "wikitext-103"}
    xl = language_model_settings(config, "xl", 3)
    assert (xl["run"], xl["paper"], xl["seed"], xl["epochs"]) == ("xl", "table2a/define-64", 3, 2)
    assert (xl["map"]["dim"], xl["train"]) == (64, "data/wikitext-103/raw/train.txt")
    tiny = language_model_settings(config, "tiny", 1)
    assert (tiny["corpus"], tiny["epochs"]) == ("wikitext-2", 20)  # not those of `training`

    del (
        config["language_models"]["runs"][1]["paper"],
        config["language_models"]["runs"][1]["corpus"],
    )
    with pytest.raises(UserError, match="run 'tiny' lacks the key 'corpus', or 'paper'"):
        complete_config(config, "my.yaml")


def test_compressed_models_are_not_trained_as_such():
    assert find_row("table5/define-128").settings is not None
    with pytest.raises(UserError, match="which isn't a language model trained here"):
        paper_run("table5/define-128-compressed")

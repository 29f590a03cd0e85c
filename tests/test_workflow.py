"""The whole workflow with the real Snakemake, OpenNMT-py and subword-nmt, on very little text.

The text is the user's own in these tests, in a folder whose name has a space and an umlaut, with
the kinds of line ends and characters that real files have.
"""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml
from paths import BIN, ROOT

from onmt_define.errors import UserError
from onmt_define.opennmt.checkpoint_files import load
from onmt_define.workflow.demo.corpus import generate_corpus

pytestmark = pytest.mark.slow

TRAINING = {
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "position_encoding": True,
    "layers": 1,
    "hidden_size": 16,
    "word_vec_size": 16,
    "transformer_ff": 32,
    "heads": 2,
    "param_init": 0,
    "param_init_glorot": True,
    "optim": "adam",
    "learning_rate": 0.01,
    "batch_type": "tokens",
    "batch_size": 256,
    "bucket_size": 300,
    "num_workers": 0,
    "train_steps": 20,
    "valid_steps": 10,
    "save_checkpoint_steps": 10,
    "keep_checkpoint": 2,
    "report_every": 5,
}
DEFINE = {
    "embedding_type": "define",
    "define_map_dim": 8,
    "define_expand_dim": 32,
    "define_depth": 3,
    "define_groups": 4,
}


def configuration():
    files = {
        split: {"source": f"meine Texte ü/{split}.en", "target": f"meine Texte ü/{split}.de"}
        for split in ("train", "valid", "test")
    }
    return {
        "name": "tiny",
        "source_language": "en",
        "target_language": "de",
        "allow_cpu": True,
        "corpus": {
            "name": "mine",
            "files": {
                "train": files["train"],
                "valid": files["valid"],
                "test_sets": {"mytest": files["test"]},
            },
        },
        "test_sets": ["mytest"],
        "bpe": {"merges": 100},
        "compression": {"codebooks": 4, "steps": 20, "runs": ["lstm"]},
        "translation": {
            "training": TRAINING,
            "decoding": {"beam_size": 2, "max_length": 20},
            "averaging": 2,
            "runs": [
                {"name": "standard", "options": {"share_vocab": True, "share_embeddings": True}},
                {"name": "define", "options": DEFINE},
            ],
        },
        "language_models": {
            "training": {
                "model": "lstm",
                "hidden_size": 16,
                "layers": 1,
                "dropout": 0.0,
                "bptt": 10,
                "batch_size": 8,
                "optimizer": "adam",
                "learning_rate": 0.01,
                "gradient_clip": 1.0,
                "epochs": 1,
                "save_every": 50,
                "min_count": 2,
            },
            "runs": [
                {
                    "name": "lstm",
                    "corpus": {"language": "en"},
                    "options": {"map": {"type": "standard", "dim": 16}},
                }
            ],
        },
    }


def write_user_files(folder):
    """300 pairs; CRLF on one side, a byte order mark, U+2028, U+0085, no newline at the end."""
    texts = folder / "meine Texte ü"
    texts.mkdir(parents=True)
    corpus = generate_corpus(pairs=300, valid=10, test=10, seed=3)
    for split, pairs in corpus.items():
        english, german = ([pair[side] for pair in pairs] for side in (0, 1))
        if split == "train":
            german[3] = german[3].replace(" ", "\u2028", 1)
            english[5] = english[5].replace(" ", "\u0085", 1)
        if split == "test":
            english[4] = ""
        (texts / f"{split}.en").write_text("\r\n".join(english), "utf-8", newline="")
        (texts / f"{split}.de").write_text(
            "".join(f"{line}\n" for line in german), "utf-8-sig", newline=""
        )


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path)


def make_project(parent):
    folder = parent / "ein Ordner ü"
    folder.mkdir()
    write_user_files(folder)
    save(folder, configuration())
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The project after its workflow, and what that printed."""
    folder = make_project(tmp_path_factory.mktemp("finished"))
    result = snakemake(folder)
    assert result.returncode == 0, result.stderr + result.stdout
    return folder, result.stdout + result.stderr


def save(folder, config):
    (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), "utf-8")


def plan(folder, config):
    """What `onmt_define plan` prints."""
    done = subprocess.run(
        [BIN / "onmt_define", "plan", config], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def snakemake(folder, *arguments, timeout=600):
    environment = {name: value for name, value in os.environ.items() if name != "PATH"}
    # Not activated: the workflow must find its own commands.
    environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    return subprocess.run(
        [BIN / "snakemake", "--snakefile", ROOT / "Snakefile", "--cores", "2", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_from_the_users_files_to_the_report(finished, tmp_path):
    project, output = finished
    results = project / "results" / "tiny"
    assert f"Report: {results}/report/index.html" in output
    for run in ("standard", "define"):
        seed = results / "mt" / run / "seed1"
        hypotheses = (seed / "mytest.hyp").read_text("utf-8").split("\n")
        assert len(hypotheses) == 11
        assert hypotheses[4] == ""
        for model in ("", "-averaged"):
            score = json.loads((seed / f"mytest{model}.score.json").read_text())
            assert score["lines"] == 10
            assert ("baseline" in score) == (run == "define")
        record = json.loads((seed / "record.json").read_text())
        assert record["steps"] == 20
        assert record["parameters"]["total"] == sum(list(record["parameters"].values())[:-1])
    assert record["embedding"]["groups"] == [4, 2, 1]
    counts = json.loads(next((project / "data/mine").glob("clean-*/train.counts.json")).read_text())
    assert counts["pairs"] == counts["kept"] == 300
    page = (results / "report" / "index.html").read_text("utf-8")
    assert "define" in page
    assert 'id="correlation"' in page
    assert 'id="compression"' in page
    record = json.loads((results / "lm/lstm/seed1/compressed.json").read_text())
    assert (record["codebooks"], record["codes"]) == (4, 16)
    assert record["score"]["metric"] == "perplexity"
    maps = json.loads((results / "mt/define/seed1/correlation/correlation.json").read_text())
    assert {stage["embedding"] for stage in maps["stages"]} == {"source", "target"}
    with open(results / "report" / "tables" / "translation.csv", encoding="utf-8") as table:
        assert len(list(csv.reader(table))) == 3

    whole = snakemake(project, "--report", "whole.html")
    assert whole.returncode == 0, whole.stderr
    assert "Everything that the runs of tiny gave" in (project / "whole.html").read_text("utf-8")

    # Nothing to do again, whatever the number of GPUs is said to be.
    for gpus in ("0", "4"):
        again = snakemake(project, "--resources", f"gpu={gpus}", "--dry-run")
        assert "Nothing to be done" in again.stdout + again.stderr

    # So says the plan.
    planned = plan(project, "config.yaml")
    assert "Jobs: none, all is done" in planned
    assert "Text that is there already: mine (raw, clean, encoded)" in planned
    assert "Downloads: none" in planned
    assert re.findall(r"^  (standard|define) seed 1: (.*)$", planned, re.M) == [
        ("standard", "done"),
        ("define", "done"),
    ]
    assert "Disk: about 0.0 GiB more at the peak, 0.0 GiB more at the end" in planned

    # The written configuration is OpenNMT-py's own and trains by itself.
    seed = results / "mt" / "define" / "seed1"
    before = (seed / "model.pt").read_bytes()
    alone = subprocess.run(
        [BIN / "onmt_train", "-config", seed / "train.yaml", "-save_model", tmp_path / "alone"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 0, alone.stderr
    assert (tmp_path / "alone_step_20.pt").exists()
    assert (seed / "model.pt").read_bytes() == before

    # Another setting of one run trains that run again and no other.
    config = configuration()
    config["translation"]["runs"][1]["options"] = {**DEFINE, "define_expand_dim": 48}
    save(tmp_path, config)
    planned = snakemake(project, "--dry-run", "--configfile", tmp_path / "config.yaml")
    assert "mt/define/seed1/model.pt" in planned.stdout + planned.stderr
    assert "mt/standard/seed1/model.pt, " not in planned.stdout + planned.stderr

    # But not while there are checkpoints of the other one, and nothing is lost by asking.
    refused = snakemake(project, "--configfile", tmp_path / "config.yaml")
    assert refused.returncode != 0
    assert "was begun with define_expand_dim: 32, but the run says 48" in refused.stderr
    assert (seed / "model.pt").read_bytes() == before
    faster = configuration()
    faster["language_models"]["training"]["learning_rate"] = 0.02
    save(tmp_path, faster)
    language_model = results / "lm" / "lstm" / "seed1"
    finished_files = [(language_model / name).read_bytes() for name in ("model.pt", "record.json")]
    refused = snakemake(project, "--configfile", tmp_path / "config.yaml")
    assert_refused(refused, "was made with learning_rate: 0.01, but the run says 0.02; expected")
    assert finished_files == [
        (language_model / name).read_bytes() for name in ("model.pt", "record.json")
    ]
    fewer = configuration()
    fewer["translation"]["training"] = {**TRAINING, "train_steps": 19, "save_checkpoint_steps": 5}
    save(tmp_path, fewer)
    refused = snakemake(project, "--configfile", tmp_path / "config.yaml")
    assert_refused(refused, "standard/seed1 is at step 20, but the run says train_steps: 19;")
    assert (seed / "model.pt").read_bytes() == before
    save(tmp_path, config)
    shutil.rmtree(seed / "checkpoints")
    printed = plan(project, tmp_path / "config.yaml")
    assert re.search(r"^train_translation +1$", printed, re.M)
    assert "  standard seed 1: done\n" in printed
    assert "  define seed 1: 0.0" in printed


def loads(checkpoint):
    try:
        return bool(load(checkpoint))
    except UserError:
        return False


def test_a_killed_training_goes_on_from_its_newest_whole_checkpoint(finished, tmp_path):
    project = tmp_path / "ein Ordner ü"
    shutil.copytree(finished[0], project)
    shutil.rmtree(project / "results")
    config = configuration()
    steps = {"train_steps": 400, "keep_checkpoint": 3, "valid_steps": 12}
    config["translation"]["training"] = {**TRAINING, **steps}
    del config["translation"]["runs"][0]
    del config["language_models"], config["compression"]
    save(project, config)
    ready = snakemake(project, "--omit-from", "train_translation")
    assert ready.returncode == 0, ready.stderr
    seed = project / "results/tiny/mt/define/seed1"
    command = [sys.executable, ROOT / "scripts/train_translation.py", "--allow-cpu"]
    command += ["--config", seed / "train.yaml", "--output", seed, "--corpus", "mine"]
    command += ["--log", project / "train.log"]
    training = subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE)
    newest = None
    while newest is None:
        newest = next((seed / "checkpoints").glob("checkpoint_step_*0.pt"), None)
        time.sleep(0.05)
        assert training.poll() is None, training.stderr.read()
    second = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert second.returncode == 2
    assert "another process is training in" in second.stderr
    training.send_signal(signal.SIGKILL)
    training.wait()
    time.sleep(1)
    checkpoints = sorted(
        (seed / "checkpoints").glob("*.pt"), key=lambda path: int(path.stem.split("_")[-1])
    )
    time.sleep(2)
    assert checkpoints[-1] == max(
        (seed / "checkpoints").glob("*.pt"), key=lambda path: int(path.stem.split("_")[-1])
    ), "the training outlived its killed wrapper"
    # A kill may come while a checkpoint is being saved; if this one didn't, a cut copy stands in.
    newest = [path for path in checkpoints if loads(path)][-1]
    stopped_at = int(newest.stem.split("_")[-1])
    cut = seed / "checkpoints" / f"checkpoint_step_{stopped_at + 10}.pt"
    cut.write_bytes(newest.read_bytes()[:-1000])

    resumed = snakemake(project, "--", str((seed / "model.pt").relative_to(project)))
    assert resumed.returncode == 0, resumed.stderr
    record = json.loads((seed / "record.json").read_text())
    assert record["steps"] == record["model_step"] == 400
    assert "model.pt is of the last step, 400, which wasn't validated" in resumed.stderr
    assert [attempt["from_step"] for attempt in record["tries"]] == [0, stopped_at]
    steps = [point["step"] for point in record["learning_curve"]]
    assert steps == sorted(set(steps))
    assert steps[-1] == 400
    validated = [point["step"] for point in record["validation"]]
    assert validated == sorted(set(validated))
    assert validated[-1] == 396
    assert all(step % 12 == 0 for step in validated)


def test_the_model_is_the_best_checkpoint_that_is_whole(finished, tmp_path):
    """OpenNMT-py validated at steps 10 and 20; here as if it had found the earlier one better."""
    project = tmp_path / "project"
    shutil.copytree(finished[0], project)
    seed = project / "results/tiny/mt/standard/seed1"
    curve = json.loads((seed / "learning_curve.json").read_text())
    assert [point["step"] for point in curve["validation"]] == [10, 20]
    curve["validation"][0]["perplexity"] = curve["validation"][1]["perplexity"] - 1
    (seed / "learning_curve.json").write_text(json.dumps(curve))
    command = [sys.executable, ROOT / "scripts/train_translation.py", "--allow-cpu"]
    command += ["--config", seed / "train.yaml", "--output", seed, "--corpus", "mine"]
    command += ["--log", project / "train.log"]
    checkpoints = {step: seed / f"checkpoints/checkpoint_step_{step}.pt" for step in (10, 20)}

    def expect_model_of(step, sentence):
        weights = load(checkpoints[step])["model"]
        ended = subprocess.run(command, cwd=project, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        assert sentence in ended.stderr
        model = load(seed / "model.pt")
        assert model["optim"] is None
        assert all(torch.equal(weights[name], model["model"][name]) for name in weights)
        record = json.loads((seed / "record.json").read_text())
        assert (record["steps"], record["model_step"]) == (20, step)

    expect_model_of(10, "model.pt is of step 10, whose validation perplexity is the lowest")
    checkpoints[10].write_bytes(checkpoints[10].read_bytes()[:-1000])
    expect_model_of(20, "checkpoint_step_10.pt is damaged, going back to another checkpoint")
    assert not checkpoints[10].exists()


def test_a_finished_training_is_not_passed_off_as_one_on_other_text(finished, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(finished[0], project)
    seed = project / "results/tiny/mt/standard/seed1"
    command = [sys.executable, ROOT / "scripts/train_translation.py", "--allow-cpu"]
    command += ["--config", seed / "train.yaml", "--output", seed, "--corpus", "mine"]
    command += ["--log", project / "train.log"]

    def train_again():
        return subprocess.run(command, cwd=project, capture_output=True, text=True)

    curve = seed / "learning_curve.json"
    curve.write_text(curve.read_text()[:-20])
    damaged = train_again()
    assert_refused(damaged, f"{curve} is damaged, expected a learning curve")
    curve.unlink()
    assert train_again().returncode == 0

    text = next((project / "data/mine").glob("bpe-*/train.de"))
    lines = text.read_text("utf-8").split("\n")
    text.write_text("\n".join([lines[1], lines[0], *lines[2:]]), "utf-8")
    shutil.rmtree(text.with_name("token-ids"), ignore_errors=True)
    checkpoints = [path.read_bytes() for path in sorted((seed / "checkpoints").iterdir())]
    refused = train_again()
    assert_refused(refused, "train.de isn't what the training in")
    assert checkpoints == [path.read_bytes() for path in sorted((seed / "checkpoints").iterdir())]

    shutil.rmtree(seed / "checkpoints")
    anew = train_again()
    assert anew.returncode == 0, anew.stderr
    record = json.loads((seed / "record.json").read_text())
    assert [attempt["from_step"] for attempt in record["tries"]] == [0]


def break_text(folder, name, content):
    (folder / "meine Texte ü" / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("valid.en", b" \n" * 10, "have text on both sides in none of their lines"),
        ("train.en", b"ok\n\xff\xfe\n", "line 2"),
    ],
)
def test_bad_text_stops_the_workflow_with_one_sentence(project, name, content, sentence):
    break_text(project, name, content)
    result = snakemake(project)
    output = result.stdout + result.stderr
    assert result.returncode != 0
    errors = [line for line in output.split("\n") if line.startswith("error: ")]
    assert len(errors) == 1
    assert name in errors[0]
    assert sentence in errors[0]
    assert "Traceback" not in output
    assert not list((project / "data").rglob("train.*"))


@pytest.mark.parametrize(
    ("split", "path", "sentence"),
    [
        (
            "valid",
            "nowhere.en",
            "config.yaml: corpus.files.valid.source: there is no file nowhere.en",
        ),
        ("valid", "~/no.en", "corpus.files.valid.source: there is no file {home}/no.en"),
        (
            "train",
            "meine Texte ü",
            "corpus.files.train.source: meine Texte ü isn't a file, expected",
        ),
        ("train", ["loop"], "corpus.files.train.source: there is no file loop"),
    ],
)
def test_a_missing_file_is_named_with_its_key(project, split, path, sentence):
    (project / "loop").symlink_to("loop")
    config = configuration()
    config["corpus"]["files"][split]["source"] = path
    config["corpus"]["files"][split]["target"] = path
    save(project, config)
    assert_refused(snakemake(project, "--dry-run"), sentence.format(home=os.path.expanduser("~")))


def test_mistakes_in_the_configuration_stop_even_a_dry_run(project):
    save(project, {**configuration(), "test_set": ["x"]})
    sentence = "unknown key 'test_set', did you mean 'test_sets'?"
    assert_refused(snakemake(project, "--dry-run"), sentence)
    text = yaml.safe_dump(configuration()) + "name: another\n"
    (project / "config.yaml").write_text(text)
    (project / "mine.yaml").write_text(text)
    line = text.count("\n")
    for arguments in ((), ("--configfile", "mine.yaml")):
        file = arguments[-1] if arguments else "config.yaml"
        sentence = f"{file}, line {line}: the key 'name' is in line"
        assert_refused(snakemake(project, "--dry-run", *arguments), sentence)


def assert_refused(result, sentence):
    output = result.stdout + result.stderr
    assert result.returncode != 0, output
    assert sentence in output
    assert "Traceback" not in output


def test_a_tilde_stands_for_the_home_folder(project, monkeypatch):
    monkeypatch.setenv("HOME", str(project))
    (project / "meine Texte ü" / "train.en").rename(project / "x's.en")
    config = configuration()
    config["corpus"]["files"]["train"]["source"] = "~/x's.en"
    save(project, config)
    result = snakemake(project, "--until", "import_corpus")
    assert result.returncode == 0, result.stderr + result.stdout
    assert (project / "data/mine/raw/train.en").read_text("utf-8").count("\n") == 300
    # What was taken in may go.
    (project / "x's.en").unlink()
    planned = snakemake(project, "--dry-run")
    assert planned.returncode == 0, planned.stderr + planned.stdout


def test_a_run_can_be_tested_against_a_baseline_of_its_own(project):
    config = configuration()
    translation = config["translation"]
    translation["runs"] = [{"name": name} for name in ("small", "narrow", "large", "deep")]
    for run in translation["runs"][2:]:
        run["baseline"] = "large"
    save(project, config)
    planned = snakemake(project, "--dry-run", "--printshellcmds", "--until", "score")
    commands = [line for line in planned.stdout.splitlines() if "score.py" in line]
    pairs = {
        (run, *re.findall(r"--baseline-run (\w+)", command))
        for command in commands
        for run in re.findall(r"--hypothesis results/tiny/mt/(\w+)/", command)
    }
    assert pairs == {("small",), ("narrow", "small"), ("large",), ("deep", "large")}


def test_text_can_be_prepared_where_there_is_no_gpu(project, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    save(project, {**configuration(), "allow_cpu": False})
    result = snakemake(project, "--resources", "gpu=1", "--until", "import_corpus")
    assert result.returncode == 0, result.stderr + result.stdout
    result = snakemake(project, "--resources", "gpu=1", "--until", "train_translation")
    assert_refused(result, "a training asks for 1 GPU, but none is visible")


def test_text_without_words_to_learn_from(project):
    for side in ("en", "de"):
        break_text(project, f"train.{side}", b"a b c\n" * 3)
    result = snakemake(project, "--until", "learn_bpe")
    assert_refused(result, "error: subword-nmt learned nothing from data/mine/clean-")
    assert not list((project / "data").rglob("codes"))


@pytest.mark.parametrize("path", ["config.yaml", "configs/demo.yaml", "configs/multi30k.yaml"])
def test_shipped_configurations_plan_the_whole_run(tmp_path, path):
    result = snakemake(tmp_path, "--configfile", ROOT / path, "--dry-run", "--resources", "gpu=4")
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    for rule in ("train_translation", "translate", "score", "report"):
        assert f"rule {rule}:" in output
    if path == "config.yaml":
        language_models = ("run=transformer-xl-define", "corpus=wikitext-103", "corpus=ptb")
        for expected in ("newstest2014", "newstest2017", *language_models):
            assert expected in output

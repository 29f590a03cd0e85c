"""The parts of a training's wrapper: configuration, log lines, checkpoints, scores."""

import json
import os
import sys
from argparse import Namespace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.opennmt.translations import decode_bpe
from onmt_define.workflow.learning_curve import LearningCurve
from onmt_define.workflow.opennmt_checkpoints import opennmt_checkpoints
from onmt_define.workflow.same_training import begin, check_same_training
from onmt_define.workflow.scoring import Baseline, score
from onmt_define.workflow.training_config import resolve_training, spread_over_gpus
from onmt_define.workflow.training_record import count_parameters

LOG = """\
[2026-01-01 10:00:00,000 INFO] Step  5/   20; acc: 0.0; ppl: 4297.4; xent: 8.4; lr: 0.00019; \
sents:     266; bsz:  647/ 658/53; 2912/2961 tok/s;      1 sec;
[2026-01-01 10:00:01,000 INFO] Step 10/   20; acc: 0.1; ppl: 4023.7; xent: 8.3; lr: 0.00034; \
sents:     338; bsz:  699/ 740/68; 4759/5043 tok/s;      2 sec;
[2026-01-01 10:00:02,000 INFO] valid stats calculation
[2026-01-01 10:00:02,000 INFO] Train perplexity: 4150.3
[2026-01-01 10:00:02,000 INFO] Validation perplexity: 3649.29
[2026-01-01 10:00:02,000 INFO] Validation accuracy: 0.672269
"""


def read(log):
    curve = LearningCurve(valid_steps=10)
    read_on(curve, log)
    return curve


def read_on(curve, log):
    for line in log.splitlines():
        curve.read_line(line)


def validation(perplexity):
    return f"Validation perplexity: {perplexity}\nValidation accuracy: 50\n"


def test_log_lines_become_points():
    curve = read(LOG)
    assert [point["step"] for point in curve.training] == [5, 10]
    assert curve.training[1]["train_perplexity"] == 4023.7
    assert curve.training[1]["learning_rate"] == 0.00034
    assert curve.validation == [{"step": 10, "perplexity": 3649.29, "accuracy": 0.672269}]
    assert curve.tokens_per_second() == {"source": 4759, "target": 5043}


@pytest.mark.parametrize("valid_steps", [3, 4, 7, 10, 500])
def test_a_validation_has_its_step_however_rarely_training_is_reported(valid_steps):
    curve = LearningCurve(valid_steps)
    read_on(curve, validation(90) + LOG + validation(30))
    steps = [point["step"] for point in curve.validation]
    assert steps == [valid_steps, 2 * valid_steps, 3 * valid_steps]


def test_a_resumed_training_validates_at_the_next_multiple_after_its_checkpoint():
    curve = LearningCurve(valid_steps=4)
    read_on(curve, validation(90) + validation(80) + validation(70))
    curve.forget_after(10)
    read_on(curve, validation(71))
    curve.forget_after(8)
    read_on(curve, validation(72))
    curve.forget_after(17)  # what came between was never read
    read_on(curve, validation(60))
    assert [(point["step"], point["perplexity"]) for point in curve.validation] == [
        (4, 90),
        (8, 80),
        (12, 72),
        (20, 60),
    ]


def test_a_resumed_training_replaces_what_it_repeats():
    curve = read(LOG)
    curve.forget_after(5)
    assert [point["step"] for point in curve.training] == [5]
    assert curve.validation == []


@pytest.mark.parametrize(
    ("perplexities", "kept", "best"),
    [
        ([90, 80, 70], [4, 8, 12], 12),
        ([90, 60, 70], [4, 8, 12], 8),
        ([50, 60, 70], [8, 12], 8),  # the best is no longer kept
        ([90, 60, 60], [4, 8, 12], 12),  # equally good: trained for longer
        ([90, 60, 70], [8, 12, 14], 14),  # how good the last is isn't known
        ([90, 60, 70], [6, 10, 12], 12),  # nor those between
        (["nan", 60, "nan"], [4, 8, 12], 8),
        (["nan", "nan", "nan"], [4, 8, 12], 12),
        ([], [12], 12),
    ],
)
def test_the_best_checkpoint_is_the_kept_one_with_the_lowest_validation_perplexity(
    perplexities, kept, best
):
    curve = LearningCurve(valid_steps=4)
    read_on(curve, "".join(map(validation, perplexities)))
    assert curve.best_step(kept) == curve.best_step(reversed(kept)) == best


def test_diverged_training_is_read_as_such():
    curve = read(LOG.replace("4023.7", "nan").replace("3649.29", "nan"))
    assert curve.training[1]["train_perplexity"] != curve.training[1]["train_perplexity"]


@given(
    batch=st.integers(64, 10_000),
    counts=st.lists(st.integers(1, 16), min_size=1, max_size=3),
    number=st.integers(1, 8),
)
def test_effective_batch_does_not_depend_on_the_number_of_gpus(batch, counts, number):
    config = {"batch_size": batch, "accum_count": counts}
    batch_size, spread = spread_over_gpus(config, number)
    assert batch_size <= batch
    for before, after in zip(counts, spread, strict=True):
        assert abs(batch_size * after * number - batch * before) <= after * number / 2


@pytest.mark.parametrize(
    ("counts", "number", "expected"),
    [
        ([8], 4, (1000, [2])),
        ([1], 4, (250, [1])),
        ([3], 2, (750, [2])),
        ([2, 4], 4, (500, [1, 2])),
        ([2, 3], 2, (500, [2, 3])),
        ([4, 6], 2, (1000, [2, 3])),
        (4, 3, (667, [2])),
    ],
)
def test_batches_stay_as_large_as_they_can(counts, number, expected):
    assert spread_over_gpus({"batch_size": 1000, "accum_count": counts}, number) == expected


def test_resolved_training_names_files_and_seed():
    config = resolve_training(
        {"layers": 2, "share_vocab": True},
        bpe_dir="data/x/bpe-1",
        output_dir="results/x/mt/a/seed3",
        source_language="en",
        target_language="de",
        seed=3,
    )
    assert config["data"]["train"]["path_tgt"] == "data/x/bpe-1/train.de"
    assert config["src_vocab"] == "data/x/bpe-1/vocabulary-shared.en"
    assert config["save_model"] == "results/x/mt/a/seed3/checkpoints/checkpoint"
    assert (config["seed"], config["layers"]) == (3, 2)


def save_checkpoint(path, **parts):
    content = {
        "model": {},
        "generator": {},
        "vocab": {"src": [], "tgt": []},
        "opt": Namespace(),
        "optim": {},
    }
    torch.save({**content, **parts}, path)


def test_a_training_goes_on_with_its_own_settings_only(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    config = {"train_steps": 9, "dropout": [0.1], "data": {"train": {"path_src": "a"}}}
    check_same_training(tmp_path, config)  # of before settings were noted
    begin(tmp_path, config)
    check_same_training(tmp_path, {**config, "train_steps": 20, "report_every": 5})
    for changes, sentence in (
        ({"dropout": [0.3]}, "was begun with dropout: [0.1], but the run says [0.3]; expected the"),
        ({"data": {"train": {"path_src": "b"}}}, "data.train.path_src: a, but the run says b"),
        ({"label_smoothing": 0.1}, "label_smoothing: None, but the run says 0.1"),
    ):
        with pytest.raises(UserError) as error:
            check_same_training(tmp_path, {**config, **changes})
        assert sentence in str(error.value)


@pytest.mark.parametrize("noted", [True, False])
def test_a_training_cannot_go_back_to_fewer_steps(tmp_path, noted):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    config = {"train_steps": 12}
    if noted:
        begin(tmp_path, config)
    for step in (4, 8, 12):
        save_checkpoint(folder / f"checkpoint_step_{step}.pt")
    for steps in (12, 20):
        check_same_training(tmp_path, {"train_steps": steps})
    with pytest.raises(UserError) as error:
        check_same_training(tmp_path, {"train_steps": 8})
    assert str(error.value) == (
        f"the training in {tmp_path} is at step 12, but the run says train_steps: 8; expected at "
        f"least 12, another name for the run, or no folder {folder}, for a training from the start"
    )


def test_newest_whole_checkpoint_is_found_and_truncated_ones_go(tmp_path):
    for step in (10, 20, 100):
        save_checkpoint(tmp_path / f"checkpoint_step_{step}.pt", model={"x": torch.ones(1000)})
    newest = tmp_path / "checkpoint_step_100.pt"
    newest.write_bytes(newest.read_bytes()[:-500])
    (tmp_path / "checkpoint_step_200.pt").write_bytes(b"")
    (tmp_path / ".checkpoint_step_300.pt.4711.part").write_bytes(b"PK")
    step, path, content = opennmt_checkpoints(tmp_path).newest_valid()
    assert (step, path) == (20, tmp_path / "checkpoint_step_20.pt")
    assert content["model"]["x"].sum() == 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint_step_10.pt",
        "checkpoint_step_20.pt",
    ]


def test_a_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "checkpoint_step_10.pt"
    save_checkpoint(path, model={"x": torch.ones(1000)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    assert opennmt_checkpoints(tmp_path).newest_valid() is None


class Hostile:
    def __reduce__(self):
        return os.system, ("touch hostile-ran",)


def test_a_hostile_checkpoint_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path / "checkpoint_step_10.pt", optim=Hostile())
    assert opennmt_checkpoints(tmp_path).newest_valid() is None
    assert not (tmp_path / "hostile-ran").exists()


@pytest.mark.parametrize(("keep", "kept"), [(2, [100, 30]), (-1, [100, 30, 20, 10])])
def test_old_checkpoints_are_pruned(tmp_path, keep, kept):
    for step in (10, 20, 30, 100):
        save_checkpoint(tmp_path / f"checkpoint_step_{step}.pt")
    opennmt_checkpoints(tmp_path).prune(keep)
    assert [step for step, _ in opennmt_checkpoints(tmp_path).by_step()] == kept


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ((100, 200, 216, 300), (200, 300)),
        ((100, 200, 216), (200, 216)),  # stopped: from the newest the training goes on
        ((100, 116, 150), (100, 150)),
        ((16, 50), (50,)),
    ],
)
def test_a_checkpoint_of_a_stopped_training_pushes_out_no_regular_one(tmp_path, steps, kept):
    for step in steps:
        save_checkpoint(tmp_path / f"checkpoint_step_{step}.pt")
    opennmt_checkpoints(tmp_path).prune(2, every=100)
    assert [step for step, _ in opennmt_checkpoints(tmp_path).by_step()] == sorted(kept)[::-1]


def test_parameters_are_counted_once_and_without_positions():
    opt = Namespace(share_embeddings=False, share_decoder_embeddings=False)
    luts = "embeddings.make_embedding.emb_luts.0"
    checkpoint = {
        "opt": opt,
        "model": {
            f"encoder.{luts}.weight": torch.ones(5, 2),
            "encoder.embeddings.make_embedding.pe.pe": torch.ones(100, 1, 2),
            "encoder.transformer.0.weight": torch.ones(3),
            f"decoder.{luts}.weight": torch.ones(5, 2),
            "decoder.transformer_layers.0.weight": torch.ones(4),
        },
        "generator": {"weight": torch.ones(5, 2), "bias": torch.ones(5)},
    }
    parts = count_parameters(checkpoint)
    assert list(parts.values()) == [10, 10, 3, 4, 15, 42]
    opt.share_embeddings = opt.share_decoder_embeddings = True
    assert list(count_parameters(checkpoint).values()) == [10, 0, 3, 4, 5, 22]


def test_nothing_half_written_stays_under_the_final_name(tmp_path):
    path = tmp_path / "folder" / "file"

    def fail_half_way():
        with complete_or_absent(path) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("encoded", "plain"),
    [("ein H@@ und bell@@ t", "ein Hund bellt"), ("", ""), ("ab@@", "ab"), ("a@@ b@@ c", "abc")],
)
def test_subwords_are_joined(encoded, plain):
    assert decode_bpe(encoded) == plain


@pytest.fixture
def translated(tmp_path):
    """A reference, a good translation and a worse one, in a folder."""
    reference = "".join(f"the cat number {index} sat on the mat\n" for index in range(50))
    (tmp_path / "ref").write_text(reference)
    (tmp_path / "good").write_text(reference.replace("cat number 1", "dog number 1"))
    (tmp_path / "bad").write_text(reference.replace("cat number", "dogs in"))
    return tmp_path


def scored(folder, hypothesis, **options):
    output = folder / "score.json"
    score(folder / hypothesis, folder / "ref", output, test_set="mats", **options)
    return json.loads(output.read_text())


def test_scores_have_signature_and_interval(translated):
    result = scored(translated, "good")
    assert result["lines"] == 50
    assert result["interval"][0] < result["BLEU"] < result["interval"][1] <= 100.5
    assert result["chrF_interval"][0] < result["chrF"] < result["chrF_interval"][1] <= 100.5
    assert result["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "baseline" not in result
    assert "COMET" not in result


@pytest.mark.parametrize(("one", "other", "sign"), [("good", "bad", 1), ("bad", "good", -1)])
def test_scores_are_tested_against_the_baseline(translated, one, other, sign):
    compared = scored(translated, one, baseline=Baseline(translated / other, "standard", 3))
    expected = scored(translated, one)
    against = scored(translated, other)
    baseline = compared.pop("baseline")
    assert compared == expected
    assert (baseline["run"], baseline["seed"]) == ("standard", 3)
    for metric in ("BLEU", "chrF"):
        difference = baseline[metric]["difference"]
        assert difference == pytest.approx(expected[metric] - against[metric], abs=1e-3)
        assert sign * difference > 0
        assert baseline[metric]["p_value"] < 0.05
        assert "bs:1000" in baseline[metric]["signature"]


def test_the_same_translation_is_no_significant_change(translated):
    baseline = scored(translated, "good", baseline=Baseline(translated / "good", "other", 1))
    assert baseline["baseline"]["BLEU"]["difference"] == 0
    assert baseline["baseline"]["BLEU"]["p_value"] > 0.5


def test_comet_is_asked_for_only_where_it_is_installed(translated, monkeypatch):
    (translated / "src").write_text((translated / "ref").read_text())
    options = {"source": translated / "src", "comet": "Unbabel/wmt22-comet-da"}
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(UserError, match="COMET isn't installed; `pip install unbabel-comet`"):
        scored(translated, "good", **options)
    assert not (translated / "score.json").exists()


def test_comet_scores_where_it_is_installed(translated, monkeypatch):
    """A stand-in for the package, with the three of its names that are used."""
    given = []

    class Model:
        def predict(self, data, gpus):
            given.extend(data)
            return SimpleNamespace(system_score=0.81234567)

    comet = ModuleType("comet")
    comet.__spec__ = ModuleSpec("comet", None)
    comet.download_model = "file of {}".format
    comet.load_from_checkpoint = {"file of a/model": Model()}.get
    monkeypatch.setitem(sys.modules, "comet", comet)
    (translated / "src").write_text((translated / "ref").read_text())
    result = scored(translated, "good", source=translated / "src", comet="a/model")
    assert result["COMET"] == {"model": "a/model", "score": 0.8123}
    references = (translated / "ref").read_text().splitlines()
    translations = (translated / "good").read_text().splitlines()
    assert [each["src"] for each in given] == [each["ref"] for each in given] == references
    assert [each["mt"] for each in given] == translations


def test_a_wrong_number_of_translations_is_refused(tmp_path):
    (tmp_path / "ref").write_text("a\nb\n")
    (tmp_path / "hyp").write_text("a\n")
    with pytest.raises(UserError, match=r"has 1 lines, but .* has 2"):
        score(tmp_path / "hyp", tmp_path / "ref", tmp_path / "score.json", test_set="x")
    baseline = Baseline(tmp_path / "hyp", "standard", 1)
    with pytest.raises(UserError, match=r"hyp has 1 lines, but .*ref has 2"):
        score(
            tmp_path / "ref",
            tmp_path / "ref",
            tmp_path / "score.json",
            test_set="x",
            baseline=baseline,
        )
    assert not (tmp_path / "score.json").exists()

"""The stock OpenNMT-py commands with a DeFINE model, and what they say to bad options."""

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
import yaml

from onmt_define.opennmt.checkpoint_files import load

pytestmark = pytest.mark.slow


def test_training_announces_the_embedding(trained):
    _, output = trained
    # Tables of 40 x 16 and a unit of 16-48-... each: 40 = 30 words, 4 specials, padded to 8.
    assert "embedding_type define n=16 k=64 m=32 N=3 groups=4,2,1" in output
    assert "in the model" in output


def test_checkpoint_holds_options_and_unit(trained):
    folder, _ = trained
    checkpoint = load(folder / "model_step_20.pt")
    assert checkpoint["opt"].embedding_type == "define"
    assert checkpoint["opt"].define_depth == 3
    table = "encoder.embeddings.make_embedding.emb_luts.0.map_table.weight"
    assert checkpoint["model"][table].shape[1] == 16


def test_a_model_of_before_activations_could_be_chosen_keeps_its_own(trained, stock):
    folder, _ = trained
    checkpoint = load(folder / "model_step_20.pt")
    checkpoint["opt"].define_activation = "gelu"
    torch.save(checkpoint, folder / "gelu.pt")
    del checkpoint["opt"].define_activation
    torch.save(checkpoint, folder / "older.pt")
    translations = []
    for model in ("gelu", "older", "model_step_20"):
        settings = ("-src", "valid.src", "-output", "hyp", "-verbose")
        status, printed = stock("translate", "-model", f"{model}.pt", *settings)
        assert status == 0, printed
        translations.append(
            [line for line in printed.splitlines() if line.startswith("PRED SCORE")]
        )
    assert len(translations[0]) == 20
    assert translations[0] == translations[1] != translations[2]


def test_translate_average_release_and_resume(trained, stock):
    folder, _ = trained
    models = ["model_step_10.pt", "model_step_20.pt"]
    status, printed = stock("average_models", "-m", *models, "-o", "average.pt")
    assert status == 0, printed
    status, printed = stock("release_model", "--model", models[1], "--output", "released.pt")
    assert status == 0, printed
    translations = {}
    for model in (models[1], "average.pt", "released.pt"):
        settings = ("-model", model, "-src", "valid.src", "-output", "hyp")
        status, printed = stock("translate", *settings)
        assert status == 0, printed
        translations[model] = (folder / "hyp").read_text()
        assert translations[model].count("\n") == 20
    assert translations["released.pt"] == translations[models[1]]
    resumed = ("-config", "train.yaml", "-train_from", models[0], "-save_model", "resumed")
    status, printed = stock("train", *resumed)
    assert status == 0, printed
    assert (folder / "resumed_step_20.pt").exists()
    assert load(folder / "average.pt")["opt"].model_type == "text"


def test_only_checkpoints_of_one_training_are_averaged(trained, stock):
    folder, _ = trained
    other = load(folder / "model_step_20.pt")
    other["opt"].define_activation = "gelu"
    torch.save(other, folder / "other.pt")
    less = load(folder / "model_step_20.pt")
    name = sorted(less["model"])[0]
    del less["model"][name]
    torch.save(less, folder / "less.pt")
    for models, sentence in (
        (("other.pt", "model_step_10.pt"), "other.pt has define_activation gelu and model_step_1"),
        (
            ("less.pt", "model_step_10.pt"),
            f"{name} is in one of less.pt and model_step_10.pt alone",
        ),
    ):
        status, printed = stock("average_models", "-m", *models, "-o", "mixed.pt")
        assert status != 0
        assert sentence in printed
        assert not (folder / "mixed.pt").exists()


def test_a_tensor_in_two_places_is_averaged_once(stock, tmp_path):
    """As where the classifier is tied to a table, whatever the embedding."""
    for name, value in (("a.pt", 1.0), ("b.pt", 4.0)):
        weights = {"weight": torch.full((2,), value)}
        content = {
            "model": weights,
            "generator": dict(weights),
            "vocab": {"src": [], "tgt": []},
            "optim": None,
        }
        torch.save({**content, "opt": Namespace()}, tmp_path / name)
    settings = ("-m", tmp_path / "a.pt", tmp_path / "b.pt", "-o", tmp_path / "average.pt")
    assert stock("average_models", *settings)[0] == 0
    average = load(tmp_path / "average.pt")
    for part in ("model", "generator"):
        assert average[part]["weight"].tolist() == [2.5, 2.5]


def test_the_average_is_the_mean_of_every_parameter(trained, stock):
    folder, _ = trained
    models = ["model_step_10.pt", "model_step_20.pt"]
    assert stock("average_models", "-m", *models, "-o", "average.pt")[0] == 0
    first, second, average = (load(folder / name) for name in (*models, "average.pt"))
    for part in ("model", "generator"):
        assert average[part].keys() == first[part].keys()
        for name, value in average[part].items():
            mean = (first[part][name] + second[part][name]) / 2
            torch.testing.assert_close(value, mean, msg=name)


def test_models_of_different_shapes_are_not_averaged(trained, stock, tmp_path):
    checkpoint = load(trained[0] / "model_step_10.pt")
    checkpoint["generator"]["bias"] = checkpoint["generator"]["bias"][:-1]
    torch.save(checkpoint, tmp_path / "other.pt")
    models = ("-m", "model_step_10.pt", tmp_path / "other.pt")
    status, printed = stock("average_models", *models, "-o", tmp_path / "average.pt")
    assert status == 2
    assert "can't be averaged, expected checkpoints of one training" in printed
    assert not (tmp_path / "average.pt").exists()


def test_two_spawned_workers_see_the_plugin(toy, run_command, tmp_path):
    shim = Path(__file__).parent / "two_cpu_workers"
    result = run_command(
        *("onmt_train", "-config", "train.yaml", "-save_model", tmp_path / "m"),
        *("-world_size", "2", "-gpu_ranks", "0", "1", "-gpu_backend", "gloo"),
        *("-share_decoder_embeddings", "-train_steps", "10"),
        *("-master_port", str(20000 + os.getpid() % 20000)),
        cwd=toy,
        env={"PYTHONPATH": str(shim)},
    )
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    assert output.count("worker built embedding_type define") == 2, output
    checkpoint = load(tmp_path / "m_step_10.pt")
    table = "decoder.embeddings.make_embedding.emb_luts.0.map_table.weight"
    assert torch.equal(checkpoint["model"][table], checkpoint["generator"]["weight"])
    assert any("unit.maps.0.kernel" in name for name in checkpoint["model"])


def test_help_lists_the_options(run_command, tmp_path):
    text = run_command("onmt_train", "--help", cwd=tmp_path).stdout
    for option in ("--embedding_type", "--define_map_dim", "--define_depth"):
        assert option in text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"define_dept": 7}, "unknown key 'define_dept' in bad.yaml, did you mean 'define_depth'?"),
        ({"embedding_typ": "define"}, "unknown key 'embedding_typ' in bad.yaml"),
        ({"no_such_thing": 1}, "unknown key 'no_such_thing' in bad.yaml"),
        (
            {"embedding_type": "defin"},
            "embedding_type is 'defin', expected one of 'define', 'projective'",
        ),
        ({"embeddings_type": "define"}, "the input layer's option is embedding_type"),
        ({"define_map_dim": 18}, "define_map_dim is 18, expected a multiple of 4"),
        ({"define_groups": 3}, "define_groups is 3, expected a power of two"),
        ({"define_depth": 1}, "define_depth is 1, expected a whole number of at least 2"),
        ({"word_vec_size": 48}, "word_vec_size is 48, but a Transformer of hidden_size 32"),
        ({"world_size": 2}, "world_size is 2 but gpu_ranks is empty"),
        (
            {"world_size": 2, "gpu_ranks": [0, 1], "early_stopping": 3},
            "early_stopping is 3 with world_size 2, but OpenNMT-py stops only its first rank",
        ),
        ({"optim": "sparseadam"}, "optim sparseadam can't be combined"),
    ],
)
def test_bad_options_get_one_sentence(toy, monkeypatch, capsys, change, sentence):
    import onmt.bin.train

    options = yaml.safe_load((toy / "train.yaml").read_text())
    (toy / "bad.yaml").write_text(yaml.safe_dump({**options, **change, "save_model": "bad"}))
    monkeypatch.chdir(toy)
    monkeypatch.setattr(sys, "argv", ["onmt_train", "-config", "bad.yaml"])
    with pytest.raises(SystemExit) as exit_status:
        onmt.bin.train.main()
    assert exit_status.value.code == 2
    assert sentence in capsys.readouterr().err
    assert not list(toy.glob("bad_step*"))


def test_a_mistake_on_the_command_line_is_one_line(toy, run_command):
    result = run_command("onmt_train", "-config", "train.yaml", "--define_dpth", "3", cwd=toy)
    assert result.returncode == 2
    assert "unknown option '--define_dpth', did you mean 'define_depth'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_model_is_one_line(toy, monkeypatch, capsys):
    import onmt.bin.translate

    monkeypatch.chdir(toy)
    monkeypatch.setattr(
        sys, "argv", ["onmt_translate", "-model", "nowhere.pt", "-src", "valid.src"]
    )
    with pytest.raises(SystemExit) as exit_status:
        onmt.bin.translate.main()
    assert exit_status.value.code == 2
    assert "error: there is no file nowhere.pt" in capsys.readouterr().err


def test_python_start_stays_light(tmp_path):
    code = "import sys; print([m for m in ('torch', 'onmt', 'yaml') if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout.strip() == "[]"
    hook = "import sys; print('onmt_define.opennmt.startup' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", hook], capture_output=True, text=True)
    assert output.stdout.strip() == "True"


def test_a_translation_does_without_the_compiler_of_torch(trained, tmp_path):
    """Importing it takes a second; a table that is about to be loaded would ask for it."""
    code = "import sys; from onmt.bin.translate import main; main(); "
    code += "print([m for m in ('torch', 'torch._dynamo') if m in sys.modules])"
    settings = ("-model", "model_step_20.pt", "-src", "valid.src", "-output", tmp_path / "hyp")
    done = subprocess.run(
        [sys.executable, "-c", code, *settings], cwd=trained[0], capture_output=True, text=True
    )
    assert done.stdout.strip().endswith("['torch']"), done.stdout + done.stderr

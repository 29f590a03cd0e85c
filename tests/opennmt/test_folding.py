"""`onmt_define fold`: the folded model is OpenNMT-py's own, and translates the same."""

import functools

import pytest
import torch

from onmt_define.opennmt.checkpoint_files import load

pytestmark = pytest.mark.slow


@pytest.fixture
def fold(command):
    """Run `onmt_define fold` in this process: (exit status, what it printed)."""
    return functools.partial(command, "fold")


def test_without_the_package_an_unfolded_model_says_what_to_install(trained, stock, stock_alone):
    folder, _ = trained
    alone = stock_alone(
        *("onmt.bin.translate", "-model", "model_step_20.pt", "-src", "valid.src"),
        *("-output", "nothing"),
        cwd=folder,
    )
    assert alone.returncode != 0
    last_line = alone.stderr.strip().splitlines()[-1]
    assert "the Python package onmt_define, which has to be installed" in last_line, last_line
    # What says so is also in the files of the commands that write a checkpoint anew.
    models = ("model_step_10.pt", "model_step_20.pt")
    assert stock("average_models", "-m", *models, "-o", "average.pt")[0] == 0
    assert stock("release_model", "--model", models[1], "--output", "released.pt")[0] == 0
    for model in ("average.pt", "released.pt"):
        options = torch.load(folder / model, weights_only=True)["opt"]
        assert "onmt_define, which has to be installed" in options.model_type


def test_a_plain_checkpoint_is_what_stock_would_have_saved(trained, fold, tmp_path):
    model = trained[0] / "model_step_20.pt"
    unfolded, size = load(model), model.stat().st_size
    status, printed = fold(model, "-o", tmp_path / "new" / "plain.pt")
    assert status == 0
    assert f"{size / 1e6:.1f} -> " in printed
    plain = torch.load(tmp_path / "new" / "plain.pt", weights_only=True)
    assert list(plain) == ["model", "generator", "vocab", "opt", "optim"]
    assert plain["optim"] is None
    assert plain["vocab"] == unfolded["vocab"]
    assert not [name for name in vars(plain["opt"]) if "define" in name or "embedding_t" in name]
    assert plain["opt"].model_type == "text"
    assert plain["opt"].self_attn_type == "scaled-dot"
    table = plain["model"]["encoder.embeddings.make_embedding.emb_luts.0.weight"]
    assert table.shape == (40, 32)
    assert not table[1].any()  # padding
    assert not any(".map_table." in name or ".unit." in name for name in plain["model"])
    assert fold(model, "-o", tmp_path / "again.pt")[0] == 0  # the model itself is left as it was
    assert model.stat().st_size == size


def test_the_type_of_the_weights_is_kept(trained, fold, tmp_path):
    checkpoint = load(trained[0] / "model_step_20.pt")
    for part in ("model", "generator"):
        checkpoint[part] = {name: value.half() for name, value in checkpoint[part].items()}
    torch.save(checkpoint, tmp_path / "half.pt")
    assert fold(tmp_path / "half.pt", "-o", tmp_path / "plain.pt")[0] == 0
    plain = load(tmp_path / "plain.pt")
    types = {value.dtype for part in ("model", "generator") for value in plain[part].values()}
    assert types == {torch.float16}


def test_what_can_not_be_folded(trained, fold, tmp_path):
    model, plain, lora = trained[0] / "model_step_20.pt", tmp_path / "plain.pt", tmp_path / "lora"
    assert fold(model, "-o", plain)[0] == 0
    adapters = load(model)
    adapters["opt"].lora_layers = ["linear_query"]
    torch.save({**adapters, "generator": None}, lora)
    weightless = tmp_path / "weightless.pt"
    torch.save({name: load(model)[name] for name in ("opt", "vocab", "optim")}, weightless)
    damaged = tmp_path / "damaged.pt"
    checkpoint = load(model)
    checkpoint["model"].pop("encoder.embeddings.make_embedding.emb_luts.0.unit.maps.0.kernel")
    torch.save(checkpoint, damaged)
    unknown = tmp_path / "unknown.pt"
    checkpoint = load(model)
    checkpoint["opt"].define_activation = "swish"
    torch.save(checkpoint, unknown)
    for arguments, sentence in (
        ((unknown, "-o", tmp_path / "x.pt"), "own options: activation is 'swish', expected one"),
        ((model, "-o", tmp_path), "is the folder"),
        ((plain, "-o", tmp_path / "x.pt"), "is a plain model already, there is nothing to fold"),
        ((model, "-o", model), "is the model"),
        ((lora, "-o", tmp_path / "x.pt"), "holds LoRA adapters alone"),
        ((weightless, "-o", tmp_path / "x.pt"), "there is no weightless.safetensors"),
        ((damaged, "-o", tmp_path / "x.pt"), "doesn't fit its own options"),
        ((model, "-o", plain / "x.pt"), "can't be written"),
        ((tmp_path / "nowhere.pt", "-o", tmp_path / "x.pt"), "there is no file"),
    ):
        status, printed = fold(*arguments)
        assert status == 2, printed
        assert sentence in printed
        assert printed.count("\n") == 1
        assert not (tmp_path / "x.pt").exists()
    assert not list(tmp_path.glob("*.part"))


def test_ctranslate2_takes_a_standard_model_as_it_comes(toy, run_command, tmp_path):
    pytest.importorskip("ctranslate2")
    options = ("-embedding_type", "standard", "-train_steps", "2", "-save_checkpoint_steps", "2")
    convert = ("ct2-opennmt-py-converter", "--model_path")
    for save_format in ("pytorch", "safetensors"):
        where = ("-save_model", tmp_path / save_format, "-save_format", save_format)
        result = run_command("onmt_train", "-config", "train.yaml", *options, *where, cwd=toy)
        assert result.returncode == 0, result.stderr
    result = run_command(
        *convert, tmp_path / "pytorch_step_2.pt", "--output_dir", tmp_path / "one", cwd=toy
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "one" / "model.bin").exists()

    apart = tmp_path / "safetensors_step_2.pt"
    result = run_command(*convert, apart, "--output_dir", tmp_path / "two", cwd=toy)
    assert result.returncode == 2
    assert f"error: {apart} has its weights in another file" in result.stderr
    averaged = ("onmt_average_models", "-models", apart, "-output", tmp_path / "whole.pt")
    assert run_command(*averaged, cwd=toy).returncode == 0
    result = run_command(*convert, tmp_path / "whole.pt", "--output_dir", tmp_path / "two", cwd=toy)
    assert result.returncode == 0, result.stderr


def test_ctranslate2_says_that_a_model_has_to_be_folded(trained, run_command, tmp_path):
    pytest.importorskip("ctranslate2")
    for command, arguments in {
        "ct2-opennmt-py-converter": ("--model_path", "model_step_20.pt", "--output_dir"),
        "onmt_release_model": ("--model", "model_step_20.pt", "--format", "ctranslate2", "-o"),
    }.items():
        result = run_command(command, *arguments, tmp_path / "ct2", cwd=trained[0])
        assert result.returncode == 2
        assert "fold it first (onmt_define fold model_step_20.pt -o plain.pt)" in result.stderr
        assert "Traceback" not in result.stderr

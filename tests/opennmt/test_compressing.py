"""`onmt_define compress` on OpenNMT-py's models: the stock commands run from the codes."""

import json

import pytest
import torch

from onmt_define.compression.model_file import compress_file
from onmt_define.opennmt.checkpoint_files import load

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("embedding_type", ["standard", "projective", "define"])
def test_a_small_vocabulary_translates_exactly_the_same(
    toy, stock, command, tmp_path, embedding_type
):
    steps = ("-train_steps", "10", "-save_checkpoint_steps", "10")
    settings = ("-save_model", tmp_path / "m", "-embedding_type", embedding_type, *steps)
    status, printed = stock("train", "-config", "train.yaml", *settings)
    assert status == 0, printed
    model, compressed = tmp_path / "m_step_10.pt", tmp_path / "compressed.pt"
    status, printed = command("compress", model, "-o", compressed, "--steps", "100")
    assert status == 0, printed
    outputs = []
    for path in (model, compressed):
        status, printed = stock(
            *("translate", "-model", path, "-src", "valid.src", "-output", tmp_path / "hyp")
        )
        assert status == 0, printed
        outputs.append((tmp_path / "hyp").read_text())
    # 512 codewords for 40 tokens: nothing is lost.
    assert outputs[0] == outputs[1]
    assert set(json.loads(compressed.with_suffix(".json").read_text())["layers"]) == {
        "source",
        "target",
    }
    status, printed = command("fold", compressed, "-o", tmp_path / "plain.pt")
    assert status == 0, printed
    status, printed = stock(
        *("translate", "-model", tmp_path / "plain.pt", "-src", "valid.src"),
        *("-output", tmp_path / "hyp"),
    )
    assert status == 0, printed
    assert (tmp_path / "hyp").read_text() == outputs[1]


@pytest.fixture(scope="module")
def compressed(trained, tmp_path_factory):
    """The toy's model, compressed."""
    path = tmp_path_factory.mktemp("compressed") / "compressed.pt"
    compress_file(trained[0] / "model_step_20.pt", path, 8, 16, 20, 1)
    return path


def test_training_on_from_codes_is_refused(trained, compressed, stock, tmp_path):
    for more in ((), ("-world_size", "2", "-gpu_ranks", "0", "1")):
        settings = ("-config", "train.yaml", "-train_from", compressed, *more)
        status, printed = stock("train", *settings, "-save_model", tmp_path / "m", cwd=trained[0])
        assert status == 2
        assert "holds a compressed input layer, whose codes can't be trained" in printed
        assert printed.count("\n") == 1
        assert not list(tmp_path.iterdir())


def test_compressed_is_nothing_to_train_with(toy, stock, tmp_path):
    settings = ("-embedding_type", "compressed", "-save_model", tmp_path / "m")
    status, printed = stock("train", "-config", "train.yaml", *settings)
    assert status == 2
    assert "embedding_type is 'compressed', expected one of" in printed
    assert printed.count("\n") == 1


def test_averaging_codes_is_refused(trained, compressed, stock, tmp_path):
    settings = ("-m", compressed, compressed, "-o", tmp_path / "average.pt")
    status, printed = stock("average_models", *settings, cwd=trained[0])
    assert status == 2
    assert "can't be averaged" in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "average.pt").exists()


def test_half_precision(trained, tmp_path):
    checkpoint = load(trained[0] / "model_step_20.pt")
    for part in ("model", "generator"):
        checkpoint[part] = {name: value.half() for name, value in checkpoint[part].items()}
    torch.save(checkpoint, tmp_path / "half.pt")
    compress_file(tmp_path / "half.pt", tmp_path / "small.pt", 8, 16, 20, 1)
    weights = load(tmp_path / "small.pt")["model"].values()
    assert {value.dtype for value in weights} == {torch.float16, torch.uint8}


def test_what_can_not_be_compressed(trained, compressed, command, tmp_path):
    model = trained[0] / "model_step_20.pt"
    truncated, infinite = tmp_path / "truncated.pt", tmp_path / "infinite.pt"
    truncated.write_bytes(model.read_bytes()[:-5000])
    checkpoint = load(model)
    name = "encoder.embeddings.make_embedding.emb_luts.0.map_table.weight"
    checkpoint["model"][name][5] = float("nan")
    torch.save(checkpoint, infinite)
    torn = load(compressed)
    torn["model"]["encoder.embeddings.make_embedding.emb_luts.0.packed_codes"] = torch.zeros(40, 3)
    torch.save(torn, tmp_path / "torn.pt")
    output = tmp_path / "out" / "x.pt"
    for arguments, sentence in (
        ((compressed,), "is compressed already"),
        ((truncated,), "is damaged or cut short"),
        ((infinite,), "source embedding: a vector is not finite"),
        ((tmp_path / "torn.pt",), "doesn't fit its own options"),
        ((tmp_path / "nowhere.pt",), "there is no file"),
        ((model, "--codes", "1"), "--codes is 1, expected a whole number of at least 2"),
        ((model, "--codes", "4096"), "are 131,072 codewords, expected at most 16,384"),
        ((model, "--score", model), "--score names 1 file, expected a source and its reference"),
        ((model, "--score", tmp_path / "no"), "--score: there is no file"),
    ):
        status, printed = command("compress", *arguments, "-o", output)
        assert status == 2, printed
        assert sentence in printed
        assert printed.count("\n") == 1, printed
        assert not output.exists()
    status, printed = command("compress", model, "-o", model)
    assert status == 2
    assert "--output is the model" in printed


@pytest.mark.parametrize("there", ['{"kind": "translation"}', "[1]", "no JSON"])
def test_a_record_of_something_else_is_not_replaced(compressed, command, tmp_path, there):
    (tmp_path / "record.json").write_text(there)
    status, printed = command("compress", compressed, "-o", tmp_path / "record.pt")
    assert (status, len(printed.splitlines())) == (2, 1), printed
    assert "its record would replace" in printed
    assert (tmp_path / "record.json").read_text() == there
    assert not (tmp_path / "record.pt").exists()


def test_a_model_is_not_written_where_its_record_goes(compressed, command, tmp_path):
    status, printed = command("compress", compressed, "-o", tmp_path / "model.json")
    assert (status, len(printed.splitlines())) == (2, 1), printed
    assert "but there its record is kept; expected a .pt file" in printed
    assert not list(tmp_path.iterdir())

"""Correlation maps: against the formula written out, over chunks, and within 2 GiB."""

import csv
import json
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from onmt_define import cli
from onmt_define.analysis.correlation import CorrelationMap, correlation_maps
from onmt_define.embeddings import (
    AdaptiveEmbedding,
    CompressedEmbedding,
    DefineEmbedding,
    ProjectiveEmbedding,
)
from onmt_define.embeddings.input_layer import InputLayer
from onmt_define.lm.data import Vocabulary
from onmt_define.lm.evaluation import save_model
from onmt_define.lm.model import build_model


def written_out(table):
    """|cosine| between the columns of a table, in the simplest way."""
    columns = table.double() / table.double().norm(dim=0)
    return (columns.T @ columns).abs().float()


@given(st.integers(2, 60), st.integers(1, 9), st.integers(0, 100))
def test_a_table_gives_the_absolute_cosines_of_its_columns(rows, width, seed):
    torch.manual_seed(seed)
    table = nn.Embedding.from_pretrained(torch.randn(rows, width))
    (found,) = correlation_maps(InputLayer(table, rows))
    torch.testing.assert_close(found.values, written_out(table.weight), atol=1e-5, rtol=0)
    if width > 1:
        outside = ~torch.eye(width, dtype=torch.bool)
        assert found.off_diagonal == pytest.approx(found.values[outside].mean().item(), abs=1e-6)
    else:
        assert found.off_diagonal == 0


def test_many_chunks_are_one_table(monkeypatch):
    monkeypatch.setattr("onmt_define.embeddings.input_layer.TOKENS_AT_ONCE", 7)
    table = nn.Embedding(100, 6)
    (found,) = correlation_maps(InputLayer(table, 100))
    torch.testing.assert_close(found.values, written_out(table.weight.detach()))
    expected = torch.corrcoef(table.weight.detach().T).abs()
    torch.testing.assert_close(found.centred, expected, atol=1e-5, rtol=0)


def test_a_vector_that_all_tokens_share_is_gone_from_the_centred_map():
    torch.manual_seed(0)
    independent, shared = torch.randn(5000, 8), torch.full((8,), 3.0)
    (found,) = correlation_maps(
        InputLayer(nn.Embedding.from_pretrained(independent + shared), 5000)
    )
    assert found.off_diagonal == pytest.approx(0.9, abs=0.01)  # 9 of 9 + 1, mean and variance
    assert found.centred_off_diagonal < 0.02
    constant = nn.Embedding.from_pretrained(torch.tensor([[0.1, 0.7]]).repeat(500, 1))
    (found,) = correlation_maps(InputLayer(constant, 500))
    assert found.off_diagonal == pytest.approx(1, abs=1e-4)
    assert found.centred_off_diagonal == 0


def test_an_untrained_unit_with_gelu_shares_a_mean_that_makes_reduce_the_most_correlated():
    """Why the order of the paper's Figures 8 to 10 takes training, see docs/analysis.md."""
    reduced = {}
    for activation in ("gelu", "tanh"):
        torch.manual_seed(0)
        layer = DefineEmbedding(3000, 64, 128, 256, 3, 8, activation=activation)
        nn.init.normal_(layer.map_table.weight, std=64**-0.5)
        mapping, *_, reduced[activation] = correlation_maps(InputLayer(layer, 3000))
        assert mapping.off_diagonal < 0.03
    gelu, tanh = reduced["gelu"], reduced["tanh"]
    assert gelu.off_diagonal > 0.15
    assert gelu.centred_off_diagonal < 0.7 * gelu.off_diagonal
    assert tanh.off_diagonal < 0.1
    assert tanh.centred_off_diagonal == pytest.approx(tanh.off_diagonal, rel=0.02)


def test_independent_dimensions_are_the_identity_and_equal_ones_are_one():
    identity = nn.Embedding.from_pretrained(torch.eye(8).repeat(3, 1))
    (found,) = correlation_maps(InputLayer(identity, 24))
    assert torch.equal(found.values, torch.eye(8))
    assert found.off_diagonal == 0
    column = torch.randn(20, 1)
    same = nn.Embedding.from_pretrained(torch.cat([column, -2 * column], 1))
    (found,) = correlation_maps(InputLayer(same, 20))
    torch.testing.assert_close(found.values, torch.ones(2, 2))
    silent = nn.Embedding.from_pretrained(torch.cat([column, 0 * column], 1))
    (found,) = correlation_maps(InputLayer(silent, 20))
    assert torch.equal(found.values, torch.eye(2))


@pytest.mark.parametrize(
    ("options", "names", "groups"),
    [
        ({}, ["layer 1", "layer 2", "reduce"], [4, 2, 1]),
        ({"widths": "literal"}, ["layer 1", "layer 2", "layer 3", "reduce"], [4, 2, 1, 1]),
        ({"reduce": False}, ["layer 1", "layer 2", "layer 3"], [4, 2, 1]),
        ({"mix": "residual"}, ["layer 1", "layer 2", "reduce"], [4, 2, 1]),
    ],
)
def test_the_stages_of_a_define_layer(options, names, groups):
    layer = DefineEmbedding(50, 12, 8, 16, 3, 4, padding_idx=1, **options)
    maps = correlation_maps(InputLayer(layer, 50, 1))
    assert [one.stage for one in maps] == ["mapping layer", *names]
    assert [one.groups for one in maps] == [1, *groups]
    inputs = layer.map_table.weight.detach()
    torch.testing.assert_close(maps[0].values, written_out(inputs), atol=1e-5, rtol=0)
    last = layer.unit(inputs).detach()
    torch.testing.assert_close(maps[-1].values, written_out(last), atol=1e-5, rtol=0)
    hidden = layer.unit.maps[0](inputs).detach()
    torch.testing.assert_close(maps[1].values, written_out(hidden), atol=1e-5, rtol=0)


def test_the_stages_of_other_layers():
    compressed = CompressedEmbedding(30, 6, 2, 4)
    compressed.set_codes(torch.randint(4, (30, 2)), torch.randn(8, 6))
    for layer, names in (
        (ProjectiveEmbedding(30, 6, 3), ["mapping layer", "projection"]),
        (AdaptiveEmbedding(30, 8, [10], 2), ["embedding"]),
        (compressed, ["embedding"]),
    ):
        maps = correlation_maps(InputLayer(layer, 30))
        assert [one.stage for one in maps] == names
        table = InputLayer(layer, 30).table()
        torch.testing.assert_close(maps[-1].values, written_out(table), atol=1e-5, rtol=0)


def test_groups_are_compared_pair_by_pair():
    values = torch.rand(6, 6)
    values = ((values + values.T) / 2).fill_diagonal_(1.0)
    found = CorrelationMap("layer 1", 3, values, values)
    means = found.group_means
    assert means[0, 1] == pytest.approx(values[:2, 2:4].mean().item())
    assert means[2, 2] == pytest.approx(values[4, 5].item())
    expected = (values[:2, 2:4].mean() + values[:2, 4:].mean() + values[2:4, 4:].mean()) / 3
    assert found.between_groups == pytest.approx(expected.item())
    assert CorrelationMap("reduce", 1, values, values).between_groups is None
    of_one = CorrelationMap("layer 1", 6, values, values)
    assert of_one.between_groups == pytest.approx(of_one.off_diagonal)


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["onmt_define", "correlation", *map(str, arguments)])
    try:
        cli.main()
        status = 0
    except SystemExit as exit_status:
        status = exit_status.code
    return status, "".join(capsys.readouterr())


UNIT = {"output_dim": 12, "expand_dim": 16, "depth": 3, "max_groups": 4}
DEFINE = {"map": {"type": "standard", "dim": 8}, "unit": UNIT}


def save_language_model(path, layer, tokens):
    settings = {"run": "r", "seed": 1, "model": "lstm", "hidden_size": 16, "layers": 2}
    classifier = {"type": "full", "tied": True, "factor": 1, "bias": True}
    settings |= {"dropout": 0.0, "classifier": classifier, **layer}
    words = ["<eos>", "<unk>", *(f"w{index}" for index in range(tokens - 2))]
    save_model(path, build_model(settings, tokens), settings, Vocabulary(words))


def test_the_command_writes_numbers_and_pictures(tmp_path, monkeypatch, capsys):
    save_language_model(tmp_path / "model.pt", DEFINE, 40)
    status, printed = run(monkeypatch, capsys, tmp_path / "model.pt")
    assert status == 0, printed
    folder = tmp_path / "correlation"
    with open(folder / "correlation.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["stage"] for row in rows] == ["mapping layer", "layer 1", "layer 2", "reduce"]
    assert [row["width"] for row in rows] == ["8", "8", "12", "12"]
    assert [bool(row["between groups"]) for row in rows] == [False, True, True, False]
    for row in rows:
        assert f"{float(row['off-diagonal']):.4f}" in printed
        assert f"{float(row['centred']):.4f}" in printed
    record = json.loads((folder / "correlation.json").read_text())
    assert record["embedding_type"] == "define"
    assert len(record["stages"]) == 4
    for name in ("input", "input-groups"):
        svg = (folder / f"{name}.svg").read_text()
        assert "<svg" in svg
        assert "data:image/png;base64" in svg
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    from matplotlib.image import imread

    assert imread(folder / "input-layer-2.png").shape[:2] == (12, 12)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run(monkeypatch, capsys, tmp_path / "model.pt", "-o", folder)[0] == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_colours_get_steadily_lighter():
    """In greyscale too: each step from 0 to 1 has more luminance than the one before."""
    from matplotlib import colormaps

    from onmt_define.analysis.pictures import COLORS

    red, green, blue, _ = colormaps[COLORS](torch.linspace(0, 1, 64).numpy()).T
    luminance = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    assert (luminance[1:] > luminance[:-1]).all()


def test_files_that_are_no_model(tmp_path, monkeypatch, capsys):
    save_language_model(tmp_path / "model.pt", DEFINE, 40)
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    saved["weights"]["input_layer.map_table.weight"][3] = float("inf")
    torch.save(saved, tmp_path / "infinite.pt")
    (tmp_path / "short.pt").write_bytes((tmp_path / "model.pt").read_bytes()[:-500])
    (tmp_path / "text.pt").write_text("no model")
    torch.save({"other": 1}, tmp_path / "other.pt")
    for name, sentence in (
        ("infinite.pt", "input embedding: the mapping layer is not finite"),
        ("short.pt", "is damaged or cut short"),
        ("text.pt", "begins with 'no model'"),
        ("other.pt", "holds the entries other"),
        ("nowhere.pt", "there is no file"),
    ):
        status, printed = run(monkeypatch, capsys, tmp_path / name, "-o", tmp_path / "out")
        assert status == 2
        assert sentence in printed
        assert printed.count("\n") == 1
        assert not (tmp_path / "out").exists()


PEAK = """
    import resource, sys
    sys.argv = ["onmt_define", "correlation", {model!r}]
    from onmt_define import cli
    cli.main()
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "MiB")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [
        {"map": {"type": "standard", "dim": 384}},
        {
            "map": {"type": "standard", "dim": 384},
            "unit": {**UNIT, "output_dim": 384, "expand_dim": 1024},
        },
    ],
    ids=["standard", "define"],
)
def test_the_vocabulary_of_wikitext_103_fits_in_2_gib(tmp_path, layer):
    save_language_model(tmp_path / "model.pt", layer, 267_735)
    code = textwrap.dedent(PEAK).format(model=str(tmp_path / "model.pt"))
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    (tmp_path / "model.pt").unlink()
    assert int(printed.split("peak ")[1].split()[0]) < 2048, printed
    print(printed)

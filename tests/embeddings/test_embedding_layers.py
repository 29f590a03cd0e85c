"""The input layers: shapes, padding, mapping layers, the table kept for evaluation, folding."""

import copy

import pytest
import torch
from torch import nn

from onmt_define import AdaptiveEmbedding, DefineEmbedding, DimensionError, ProjectiveEmbedding

V = 50
LAYERS = {
    "define": lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, padding_idx=1),
    "define-dropout": lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, padding_idx=1, dropout=0.5),
    "define-projective": lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, padding_idx=1, table_dim=3),
    "define-adaptive": lambda: DefineEmbedding(
        V, 6, 8, 16, 3, 4, padding_idx=1, cutoffs=[10, 20], factor=2
    ),
    "projective": lambda: ProjectiveEmbedding(V, 6, 4, padding_idx=1),
    "adaptive": lambda: AdaptiveEmbedding(V, 8, [10, 20], 2, padding_idx=1),
}


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture(params=LAYERS)
def layer(request):
    torch.manual_seed(0)
    layer = LAYERS[request.param]()
    for name, parameter in layer.named_parameters():
        if "norms" in name or name.endswith(".bias"):
            nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 3, 4)])
def test_embedding_takes_ids_of_any_shape(shape):
    embedding = DefineEmbedding(11, 6, 8, 16, 3, 4)
    assert embedding(torch.zeros(shape, dtype=torch.int64)).shape == (*shape, 6)


def test_padding_stays_zero_and_gets_no_gradient():
    embedding = DefineEmbedding(11, 6, 8, 16, 3, 4, padding_idx=1)
    for norm in embedding.unit.norms:
        torch.nn.init.ones_(norm.bias)
    output = embedding(torch.tensor([[1, 2], [3, 1]]))
    output.sum().backward()
    assert output[0, 0].abs().max() == 0
    assert output[0, 1].abs().max() > 0
    assert embedding.map_table.weight.grad[1].abs().max() == 0
    assert embedding.map_table.weight.grad[2].abs().max() > 0


def test_projective_embedding_is_table_times_matrix():
    embedding = ProjectiveEmbedding(11, 6, 4, padding_idx=1)
    assert count(embedding) == 11 * 4 + 4 * 6
    tokens = torch.tensor([[1, 2]])
    expected = embedding.map_table.weight[tokens] @ embedding.projection.weight.T
    torch.testing.assert_close(embedding(tokens), expected)
    assert embedding(tokens)[0, 0].abs().max() == 0


def test_checkpoint_round_trip_is_safe_to_load(tmp_path):
    embedding = DefineEmbedding(11, 6, 8, 16, 3, 4)
    torch.save(embedding.state_dict(), tmp_path / "embedding.pt")
    other = DefineEmbedding(11, 6, 8, 16, 3, 4)
    other.load_state_dict(torch.load(tmp_path / "embedding.pt", weights_only=True))
    tokens = torch.arange(11)
    assert torch.equal(embedding(tokens), other(tokens))


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 3, 4)])
def test_every_layer_takes_ids_of_any_shape(layer, shape):
    tokens = torch.randint(0, V, shape)
    for mode in (True, False):
        assert layer.train(mode)(tokens).shape == (*shape, layer.embedding_dim)
        with torch.no_grad():
            assert layer(tokens).shape == (*shape, layer.embedding_dim)


def test_padding_is_zero_everywhere_and_gets_no_gradient(layer):
    tokens = torch.tensor([[1, 2], [30, 1]])
    output = layer(tokens)
    output.square().sum().backward()
    with torch.no_grad():
        kept = layer.eval()(tokens)
    for vectors in (output, kept, layer.fold()(tokens)):
        assert vectors[0, 0].abs().max() == 0
        assert vectors[1, 1].abs().max() == 0
        assert vectors[0, 1].abs().max() > 0
    assert layer.fold().padding_idx == 1


def test_repeated_tokens_get_the_gradient_of_each_use(layer):
    layer.eval()
    tokens = torch.randint(0, V, (4, 30))
    weights = torch.randn(4, 30, layer.embedding_dim)
    (layer(tokens) * weights).sum().backward()
    together = {name: p.grad.clone() for name, p in layer.named_parameters()}
    layer.zero_grad()
    for row, row_weights in zip(tokens.flatten(), weights.flatten(0, 1), strict=True):
        (layer(row) * row_weights).sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(together[name], parameter.grad, rtol=1e-4, atol=1e-4)


def test_dropout_differs_between_uses_of_one_token():
    layer = LAYERS["define-dropout"]()
    first, second = layer(torch.tensor([7, 7]))
    assert not torch.equal(first, second)


def test_a_folded_layer_is_a_plain_table_with_equal_outputs(layer):
    layer.train()
    folded = layer.fold()
    assert layer.training
    assert type(folded) is nn.Embedding
    assert folded.weight.requires_grad
    tokens = torch.arange(V)
    torch.testing.assert_close(folded(tokens), layer.eval()(tokens))
    assert folded.weight.data_ptr() != next(layer.parameters()).data_ptr()
    halved = layer.to(torch.bfloat16).fold()
    assert halved.weight.dtype == torch.bfloat16


def change_in_place(layer):
    with torch.no_grad():
        next(layer.parameters()).mul_(3)


def take_an_optimizer_step(layer):
    layer(torch.tensor([5])).square().sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.5).step()


def load_a_state(layer):
    state = {name: value * 3 for name, value in layer.state_dict().items()}
    layer.load_state_dict(state)


def load_and_assign_a_state(layer):
    state = {name: value * 3 for name, value in layer.state_dict().items()}
    layer.load_state_dict(state, assign=True)


def exchange_the_data(layer):
    weight = next(layer.parameters())
    weight.data = weight.data * 3


def exchange_the_data_twice(layer):
    """The second new weight may get the memory of the first old one."""
    weight = next(layer.parameters())
    for _ in range(2):
        weight.data = weight.data * 3


def convert(layer):
    layer.to(torch.float64)


def train_for_a_while(layer):
    layer.train()
    next(layer.parameters()).data *= 3
    layer.eval()


@pytest.mark.parametrize(
    "change",
    [
        change_in_place,
        take_an_optimizer_step,
        load_a_state,
        load_and_assign_a_state,
        exchange_the_data,
        exchange_the_data_twice,
        convert,
        train_for_a_while,
    ],
)
def test_no_stale_table_is_used_after_a_change(layer, change):
    layer.eval()
    tokens = torch.tensor([[5, 6, 45]])
    with torch.no_grad():
        before = layer(tokens)
    change(layer)
    with torch.no_grad():
        after = layer(tokens)
        expected = layer.compute(tokens)
    torch.testing.assert_close(after, expected)
    if change is not convert:
        assert not torch.allclose(before, after)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_a_fused_optimizer_leaves_no_stale_table(layer, optimizer):
    """Its kernels change a weight without counting up the weight's version."""
    layer.eval()
    tokens, step = torch.arange(V), optimizer(layer.parameters(), lr=0.1, fused=True)
    with torch.no_grad():
        before = layer(tokens)
    layer(tokens).square().sum().backward()
    step.step()
    with torch.no_grad():
        after = layer(tokens)
        torch.testing.assert_close(after, layer.compute(tokens))
    assert (after - before).abs().max() > 0.01


def test_folding_under_autocast_keeps_the_type(layer):
    plain = layer.fold().weight
    with torch.autocast("cpu", torch.bfloat16):
        folded = layer.fold().weight
    assert folded.dtype == torch.float32
    assert torch.equal(folded, plain)


def test_evaluation_looks_up_a_kept_table(layer, monkeypatch):
    layer.eval()
    tokens = torch.tensor([[5, 6]])
    with torch.no_grad():
        expected = layer(tokens)
        monkeypatch.setattr(layer, "compute", None)
        assert torch.equal(layer(tokens), expected)


def test_gradients_flow_in_evaluation_too(layer):
    layer.eval()
    with torch.no_grad():
        layer(torch.tensor([5]))
    layer(torch.tensor([5])).sum().backward()
    assert any(parameter.grad is not None for parameter in layer.parameters())
    layer.requires_grad_(False)
    assert not layer(torch.tensor([5])).requires_grad


def test_autocast_and_full_precision_have_tables_of_their_own(layer):
    layer.eval()
    tokens = torch.arange(V)
    with torch.no_grad():
        full = layer(tokens)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(layer(tokens), layer.compute(tokens))
        torch.testing.assert_close(layer(tokens), full)


def test_copies_and_files_leave_the_table_behind(layer, tmp_path):
    layer.eval()
    tokens = torch.arange(V)
    with torch.inference_mode():
        expected = layer(tokens)
        assert torch.equal(copy.deepcopy(layer)(tokens), expected)
    torch.save(layer, tmp_path / "layer.pt")
    loaded = torch.load(tmp_path / "layer.pt", weights_only=False)
    assert loaded._table is None
    assert "_table" not in loaded.state_dict()
    with torch.no_grad():
        torch.testing.assert_close(loaded(tokens), expected)


def test_a_table_made_in_inference_mode_serves_outside_it(layer):
    layer.eval().requires_grad_(False)
    tokens = torch.tensor([5])
    with torch.inference_mode():
        layer(tokens)
    weight = torch.ones(layer.embedding_dim, requires_grad=True)
    (layer(tokens) * weight).sum().backward()
    assert weight.grad is not None


def test_adaptive_bands_have_the_paper_s_widths_and_projections():
    with torch.device("meta"):
        layer = AdaptiveEmbedding(267_735, 256, [20_000, 40_000, 200_000])
    assert [table.weight.shape[1] for table in layer.tables] == [256, 64, 16, 4]
    projections = 64 * 256 + 16 * 256 + 4 * 256
    tables = 20_000 * 256 + 20_000 * 64 + 160_000 * 16 + 67_735 * 4
    assert count(layer) == tables + projections
    # Table 1a's 9,253,212 holds three cluster vectors of the tied classifier too.
    assert count(layer) + 3 * 256 == 9_253_212


def test_each_token_comes_from_its_band():
    layer = AdaptiveEmbedding(V, 8, [10, 20], 2)
    for token in (0, 9, 10, 19, 20, 49):
        band = 0 if token < 10 else 1 if token < 20 else 2
        row = layer.tables[band].weight[token - (0, 10, 20)[band]]
        expected = row if band == 0 else layer.projections[band].weight @ row
        torch.testing.assert_close(layer(torch.tensor(token)), expected)
    for token in (-1, V):
        with pytest.raises(IndexError):
            layer(torch.tensor(token))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: DefineEmbedding(0, 6, 8, 16, 3, 4), "num_embeddings is 0"),
        (lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, padding_idx=V), "padding_idx is 50"),
        (lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, padding_idx="a"), "padding_idx is 'a'"),
        (lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, padding_idx=True), "padding_idx is True"),
        (lambda: DefineEmbedding(V, 6, 9, 16, 3, 4), "map_dim is 9, expected a multiple of 4"),
        (
            lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, schedule="constant"),
            "embedding_dim is 6, expected a multiple of 4",
        ),
        (lambda: AdaptiveEmbedding(V, 8, ["a"]), "cutoffs is ['a'], expected rising numbers"),
        (lambda: AdaptiveEmbedding(V, 8, 5), "cutoffs is 5, expected rising numbers"),
        (lambda: AdaptiveEmbedding(V, 8, [True]), "cutoffs is [True], expected rising numbers"),
        (lambda: AdaptiveEmbedding(V, 8, [20, 10]), "cutoffs is [20, 10], expected rising numbers"),
        (lambda: AdaptiveEmbedding(V, 8, [10, 60]), "between 0 and num_embeddings (50)"),
        (lambda: AdaptiveEmbedding(V, 8, [10, 20], 4), "embedding_dim is 8, expected at least 16"),
        (lambda: ProjectiveEmbedding(V, 8, 0), "map_dim is 0"),
        (
            lambda: DefineEmbedding(V, 6, 8, 16, 3, 4, table_dim=2, cutoffs=[10]),
            "table_dim is 2, expected None beside cutoffs",
        ),
    ],
)
def test_bad_arguments_are_named(build, sentence):
    with pytest.raises(DimensionError) as error:
        build()
    assert sentence in str(error.value)


@pytest.mark.slow
def test_a_compiled_embedding_gives_the_same():
    layer, tokens = LAYERS["define-adaptive"](), torch.randint(0, V, (3, 7))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(tokens), layer(tokens))

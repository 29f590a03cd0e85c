"""LSTM, AWD-LSTM and Transformer-XL: sizes, tying, carried state, what training adds."""

import math

import pytest
import torch
from torch import nn

from onmt_define.errors import UserError
from onmt_define.lm import aligned, transformer_xl
from onmt_define.lm.awd_lstm import AwdLstmContext
from onmt_define.lm.input_layers import describe_input_layer, projections_of, tables_of
from onmt_define.lm.lstm import LstmContext
from onmt_define.lm.lstm_recurrence import RecurrentLayer
from onmt_define.lm.model import build_model, count_parameters
from onmt_define.lm.paper_runs import is_language_model, paper_run
from onmt_define.lm.run_settings import check_run
from onmt_define.lm.transformer_xl import TransformerXlContext, TransformerXlLayer, relative_shift
from onmt_define.paper.model_counts import count_model
from onmt_define.paper.published import find_row, load_tables

V = 20
TEXTS = {"train": "a", "valid": "b", "test": "c"}
COMMON = {
    **{"run": "tiny", "seed": 1, "corpus": "x", **TEXTS, "layers": 3, "dropout": 0.0, "bptt": 5},
    **{"batch_size": 2, "optimizer": "sgd", "learning_rate": 1.0, "gradient_clip": 0},
    **{"epochs": 1, "save_every": 1},
}
BODIES = {
    "lstm": {"model": "lstm", "hidden_size": 10},
    "awd-lstm": {"model": "awd-lstm", "hidden_size": 10},
    "transformer-xl": {
        **{"model": "transformer-xl", "model_dim": 16, "inner_dim": 12, "heads": 2, "head_dim": 3},
        "memory": 5,
    },
}
UNIT = {"output_dim": 16, "expand_dim": 32, "depth": 3, "max_groups": 4}
BANDS = {"type": "adaptive", "cutoffs": [8, 14], "factor": 2, "bias": False}
LAYERS = {
    "standard": {"map": {"type": "standard", "dim": 16}},
    "projective": {"map": {"type": "projective", "dim": 8, "output_dim": 16}},
    "adaptive": {"map": {"type": "adaptive", "dim": 16}, "classifier": BANDS},
    "one table in bands": {
        "map": {"type": "standard", "dim": 16},
        "classifier": {"type": "adaptive", "cutoffs": [8, 14]},
    },
    "define": {"map": {"type": "standard", "dim": 8}, "unit": UNIT},
    "define, projective": {
        "map": {"type": "projective", "dim": 6},
        "unit": {**UNIT, "input_dim": 16},
    },
    "define, adaptive": {
        "map": {"type": "adaptive", "dim": 16},
        "unit": UNIT,
        "classifier": BANDS,
    },
}


def settings(model, layer="standard", **changes):
    return check_run({**COMMON, **BODIES[model], **LAYERS[layer], **changes}, "test")


def build(*arguments, **changes):
    torch.manual_seed(1)
    return build_model(settings(*arguments, **changes), V)


@pytest.mark.parametrize(
    ("width", "expected"), [(256, 23_357_440), (384, 24_734_720), (512, 26_243_072)]
)
def test_lstm_context_has_the_papers_number_of_parameters(width, expected):
    with torch.device("meta"):
        context = LstmContext(width, hidden_size=1024, output_dim=width, layers=4)
    assert sum(parameter.numel() for parameter in context.parameters()) == expected


@pytest.mark.parametrize(
    ("row", "part", "expected"),
    [
        ("table1a/R1", "input_output", 68_807_895),
        ("table1a/R2", "input_output", 9_253_212),
        ("table1a/R4", "input_output", 13_895_946),
        ("table1a/R5", "input_output", 18_549_432),
        ("table2a/standard-410", "context", 41_067_220),
        ("table2a/standard-384", "context", 36_250_420),
        ("table2a/standard-410", "input_output", 110_040_318),
        ("table2a/standard-384", "input_output", 103_079_130),
        ("table2a/projective-256", "input_output", 69_201_882),
        ("table2a/projective-128", "input_output", 34_734_810),
        ("table2a/projective-64", "input_output", 17_501_274),
        ("table1c/awd-lstm", "total", 24_221_600),
        ("table1c/awd-lstm-define", "total", 20_698_896),
    ],
)
def test_built_models_have_the_papers_numbers_of_parameters(row, part, expected):
    counts, unit = count_row(row), count_model(find_row(row).settings, 1).define
    split = {
        "context": counts["context"],
        "input_output": counts["embedding"] + counts["output"] - unit,
        "total": counts["total"],
    }
    assert split[part] == expected


def count_row(row_id):
    run = check_run({**paper_run(row_id), **TEXTS}, row_id)
    with torch.device("meta"):
        return count_parameters(build_model(run, find_row(row_id).settings["vocabulary_size"]))


def test_every_row_of_the_paper_builds_a_model_of_the_counted_size():
    rows = [row for table in load_tables().values() for row in table.rows]
    rows = [row for row in rows if is_language_model(row)]
    assert {row.id.partition("/")[0] for row in rows} >= {
        f"table{number}" for number in ("1a", "1c", "2a", "2b", "6a", "6b", "7a", "8a", "8b")
    }
    for row in rows:
        counted = count_model(row.settings, row.settings["vocabulary_size"])
        built = count_row(row.id)
        assert (row.id, built["context"], built["total"]) == (
            row.id,
            counted.context,
            counted.total,
        )


@pytest.mark.parametrize("model", BODIES)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_model_learns_with_every_layer(model, layer):
    changes = {"classifier": {**LAYERS[layer].get("classifier", {}), "tied": False}}
    if model == "transformer-xl" and layer == "projective":
        changes["map"] = {"type": "projective", "dim": 8}
    for tied in (changes, {key: changes[key] for key in changes if key == "map"}):
        language_model = build(model, layer, **tied)
        tokens, targets = torch.randint(V, (2, 7, 3))
        reading = language_model(tokens, targets)
        assert reading.losses.shape == (7, 3)
        assert reading.losses.mean().item() == pytest.approx(math.log(V), abs=1.5)
        (reading.losses.mean() + reading.penalty).backward()
        for name, parameter in language_model.named_parameters():
            assert parameter.grad is not None, name
        # Another text has other state, so the model reads it.
        other = language_model(tokens.flip(0), targets)
        assert not torch.allclose(other.losses, reading.losses)


@pytest.mark.parametrize("model", BODIES)
@pytest.mark.parametrize("layer", ["standard", "adaptive", "define, adaptive"])
def test_tied_classifiers_share_tables_and_fitting_projections(model, layer):
    language_model = build(model, layer)
    classifier = language_model.output_layer
    own = list(classifier.tables) if layer != "standard" else [classifier.table]
    for shared, table in zip(own, tables_of(language_model.input_layer), strict=True):
        assert shared is table
    if layer != "standard":
        matrices = projections_of(language_model.input_layer)
        assert matrices[0] is None
        assert classifier.projection0 is None
        assert classifier.projection1 is matrices[1]
        assert classifier.projection2 is matrices[2]
    assert len(list(language_model.parameters())) == len(set(language_model.parameters()))
    untied = build(model, layer, classifier={**LAYERS[layer].get("classifier", {}), "tied": False})
    assert count_parameters(untied)["total"] > count_parameters(language_model)["total"]


def test_transformer_xl_ties_the_inputs_projection_to_the_first_bands():
    model = build("transformer-xl", map={"type": "projective", "dim": 8}, classifier=FACTOR_ONE)
    assert model.output_layer.projection0 is model.input_layer.projection.weight
    assert {name for name, _ in model.output_layer.named_parameters()} == {
        *("tables.0", "projection0", "projection1", "projection2"),
        *("clusters", "bias", "cluster_bias"),
    }


FACTOR_ONE = {"type": "adaptive", "cutoffs": [8, 14], "factor": 1}


@pytest.mark.parametrize("model", BODIES)
def test_a_stream_in_two_pieces_is_read_like_one(model):
    language_model = build(model, memory=20) if model == "transformer-xl" else build(model)
    tokens, targets = torch.randint(V, (2, 7, 3))
    whole = language_model(tokens, targets).losses
    first = language_model(tokens[:4], targets[:4])
    second = language_model(tokens[4:], targets[4:], first.state)
    torch.testing.assert_close(torch.cat([first.losses, second.losses]), whole)
    without_state = language_model(tokens[4:], targets[4:])
    assert not torch.allclose(without_state.losses, second.losses)


def test_dropout_masks_are_the_same_over_time_and_differ_between_streams():
    context = LstmContext(50, hidden_size=50, output_dim=50, layers=1, dropout=0.5)
    output, *_ = context(torch.ones(3, 4, 50))
    dropped = output == 0
    assert 0.3 < dropped.float().mean() < 0.7
    assert torch.equal(dropped[0], dropped[2])
    assert len({tuple(row.tolist()) for row in dropped[0]}) == 4
    context.eval()
    assert (context(torch.ones(1, 4, 50))[0] != 0).all()


def test_word_dropout_takes_word_types_out_of_the_whole_batch():
    model = build("awd-lstm", embedding_dropout=0.5)
    tokens = torch.randint(V, (9, 6))
    vectors = model.input_layer(tokens)
    kept = model.word_dropout(vectors, tokens) / vectors
    for token in range(V):
        values = kept[tokens == token]
        assert (
            values.numel() == 0 or torch.isin(values.round(decimals=4), torch.tensor([0, 2])).all()
        )
        assert values.round(decimals=4).unique().numel() <= 1
    assert {0.0, 2.0} == set(kept.round(decimals=4).unique().tolist())


def test_weight_dropout_drops_recurrent_weights_in_training_alone():
    torch.manual_seed(1)
    layer = RecurrentLayer(4, 6)
    plain = nn.LSTM(4, 6)
    plain.load_state_dict(layer.state_dict())
    inputs, state = torch.randn(5, 3, 4), (torch.randn(1, 3, 6), torch.randn(1, 3, 6))
    layer.weight_dropout = 1 - 1e-7  # nothing recurs
    dropped, _ = layer(inputs, state)
    with torch.no_grad():
        plain.weight_hh_l0.zero_()
    torch.testing.assert_close(dropped, plain(inputs, state)[0])

    dropped.sum().backward()
    assert layer.weight_ih_l0.grad.abs().sum() > 0
    layer.eval()
    plain.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(inputs, state)[0], plain(inputs, state)[0])


def test_activation_penalties():
    torch.manual_seed(1)
    context = AwdLstmContext(6, 6, 6, 2, activation_penalty=2.0, temporal_penalty=3.0)
    outputs, _, penalty = context(torch.randn(4, 2, 6))
    changes = outputs[1:] - outputs[:-1]
    expected = 2 * outputs.square().mean() + 3 * changes.square().mean()
    torch.testing.assert_close(penalty, expected)
    context.eval()
    assert context(torch.randn(4, 2, 6))[2] == 0


def test_relative_shift_moves_each_row_to_its_distances():
    time, length = 3, 5
    by_distance = torch.arange(length - 1, -1, -1.0).expand(2, time, length)
    shifted = relative_shift(by_distance)
    for query in range(time):
        for key in range(length - time + query + 1):
            assert shifted[1, query, key] == length - time + query - key


def test_attention_equals_a_plain_loop():
    torch.manual_seed(1)
    layer = TransformerXlLayer(6, 8, heads=2, head_dim=3, dropout=0.0, attention_dropout=0.0)
    memory, hidden = torch.randn(4, 1, 6), torch.randn(3, 1, 6)
    content_bias, position_bias = torch.randn(2, 2, 3)
    context = TransformerXlContext(6, 8, 2, 3, layers=1, memory=4)
    positions = context.positions(7, hidden)
    attended = layer.attend(
        hidden, memory, positions, context.hides(3, 7, hidden.device), content_bias, position_bias
    )

    everything = torch.cat([memory, hidden])[:, 0]
    keys, values = layer.key_value(everything).view(7, 2, 2, 3).unbind(1)
    queries = layer.query(hidden[:, 0]).view(3, 2, 3)
    by_distance = layer.position(positions).view(7, 2, 3).flip(0)
    for i in range(3):
        heads = []
        for head in range(2):
            scores = torch.stack(
                [
                    (queries[i, head] + content_bias[head]) @ keys[j, head]
                    + (queries[i, head] + position_bias[head]) @ by_distance[4 + i - j, head]
                    for j in range(4 + i + 1)
                ]
            )
            weights = (scores / 3**0.5).softmax(0)
            heads.append(weights @ values[: 4 + i + 1, head])
        torch.testing.assert_close(attended[i, 0], layer.output(torch.cat(heads)))


@pytest.mark.parametrize("training", [True, False])
def test_keys_that_fill_up_a_round_number_change_nothing(monkeypatch, training):
    model = build("transformer-xl", memory=5).train(training)
    tokens, targets = torch.randint(V, (2, 6, 2))

    def losses_and_gradients():
        model.zero_grad()
        first = model(tokens[:3], targets[:3])
        losses = torch.cat([first.losses, model(tokens[3:], targets[3:], first.state).losses])
        losses.mean().backward()
        return [losses.detach(), *(parameter.grad for parameter in model.parameters())]

    expected = losses_and_gradients()
    monkeypatch.setattr(transformer_xl, "likes_alignment", lambda _: True)
    monkeypatch.setattr(aligned, "likes_alignment", lambda _: True)
    lengths = []
    monkeypatch.setattr(
        model.context,
        "positions",
        lambda length, like: (
            lengths.append(length) or TransformerXlContext.positions(model.context, length, like)
        ),
    )
    for found, value in zip(losses_and_gradients(), expected, strict=True):
        torch.testing.assert_close(found, value)
    assert lengths == [8, 8]


def test_positions_are_sines_and_cosines_of_distances_up_to_the_longest():
    context = TransformerXlContext(4, 8, 1, 4, layers=1, memory=4, longest_distance=2)
    waves = context.positions(4, torch.zeros(1))
    angles = torch.tensor([[2.0, 0.02], [2.0, 0.02], [1.0, 0.01], [0.0, 0.0]])
    torch.testing.assert_close(waves, torch.cat([angles.sin(), angles.cos()], 1))


def test_in_evaluation_a_token_sees_as_much_however_many_are_read_at_once():
    model = build("transformer-xl", memory=4).eval()
    tokens, targets = torch.randint(V, (2, 24, 2))
    results = []
    for size in (1, 3, 8):
        state, losses = None, []
        for start in range(0, 24, size):
            part = slice(start, start + size)
            reading = model(tokens[part], targets[part], state)
            state = reading.state
            losses.append(reading.losses)
        assert len(state[0]) == 4
        results.append(torch.cat(losses))
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])


def test_input_layers_are_described_for_the_record():
    unit = {"expand_dim": 32, "output_dim": 16, "depth": 3, "groups": [4, 2, 1]}
    descriptions = {
        "standard": {"type": "standard", "output_dim": 16},
        "projective": {"type": "projective", "map_dim": 8, "output_dim": 16},
        "adaptive": {"type": "adaptive", "output_dim": 16},
        "define": {"type": "define", "map_dim": 8, **unit},
        "define, projective": {"type": "projective + define", "map_dim": 6, **unit},
        "define, adaptive": {"type": "adaptive + define", "map_dim": 16, **unit},
    }
    for layer, description in descriptions.items():
        assert describe_input_layer(build("lstm", layer).input_layer) == description


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        (("lstm", "define"), {"map": {"type": "standard", "dim": 10}}, "map.dim is 10, expected a"),
        (
            ("lstm", "define, adaptive"),
            {"classifier": {**BANDS, "factor": 5}},
            "map.dim is 16, expected at least 25 for 3 bands of factor 5",
        ),
        (("lstm", "define"), {"unit": {**UNIT, "max_groups": 3}}, "unit.max_groups is 3, expected"),
        (
            ("lstm", "define"),
            {"unit": {**UNIT, "input_dim": 9}},
            "unit.input_dim is 9, expected map",
        ),
        (("lstm",), {"layers": 1}, "hidden_size is 10, expected 16"),
        (("lstm",), {"map": {"type": "projective", "dim": 8}}, "map lacks the key 'output_dim'"),
        (("lstm",), {"map": {"type": "adaptive", "dim": 8}}, "but classifier.type is 'softmax'"),
        (("lstm",), {"classifier": BANDS}, "classifier.factor is 2, expected 1, since a tied"),
        (
            ("lstm",),
            {"classifier": {"type": "adaptive", "cutoffs": [14, 8]}},
            r"classifier.cutoffs is \[14, 8\], expected rising numbers",
        ),
        (
            ("transformer-xl",),
            {"map": {"type": "standard", "dim": 8}},
            "map.dim is 8, expected model_dim, 16",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments, changes, message):
    with pytest.raises(UserError, match=message):
        build(*arguments, **changes)

"""The LSTM language model: sizes, tying, carried state."""

import pytest
import torch

from onmt_define.errors import UserError
from onmt_define.lm.embeddings import describe_input_layer, token_table
from onmt_define.lm.lstm import LstmContext, build_model, count_parameters

STANDARD = {"type": "standard", "dim": 12}
DEFINE = {
    "type": "define",
    "dim": 12,
    "map_dim": 8,
    "expand_dim": 16,
    "depth": 3,
    "max_groups": 4,
}


def settings(embedding, **changes):
    return {"embedding": embedding, "hidden_size": 10, "layers": 3, "dropout": 0.0, **changes}


@pytest.mark.parametrize(
    ("width", "expected"), [(256, 23_357_440), (384, 24_734_720), (512, 26_243_072)]
)
def test_context_has_the_papers_number_of_parameters(width, expected):
    with torch.device("meta"):
        context = LstmContext(width, hidden_size=1024, output_dim=width, layers=4)
    assert sum(parameter.numel() for parameter in context.parameters()) == expected


def test_standard_model_has_the_papers_number_of_parameters():
    run = settings({"type": "standard", "dim": 256}, hidden_size=1024, layers=4)
    with torch.device("meta"):
        counts = count_parameters(build_model(run, vocabulary_size=267_735))
    assert counts == {
        "embedding": 267_735 * 256,
        "context": 23_357_440,
        "output": 267_735,
        "total": 92_165_335,
    }


def test_define_model_counts_its_unit_with_the_embedding():
    embedding = {**DEFINE, "dim": 256, "map_dim": 256, "expand_dim": 1024, "max_groups": 16}
    with torch.device("meta"):
        model = build_model(settings(embedding, hidden_size=1024, layers=4), vocabulary_size=1000)
    assert count_parameters(model)["embedding"] == 1000 * 256 + 412_672
    assert count_parameters(model)["context"] == 23_357_440


@pytest.mark.parametrize("embedding", [STANDARD, DEFINE])
def test_classifier_and_token_table_are_one_parameter(embedding):
    model = build_model(settings(embedding), vocabulary_size=20)
    assert model.output_layer.linear.weight is token_table(model.input_layer).weight
    assert len(list(model.parameters())) == len({id(part) for part in model.parameters()})
    assert count_parameters(model)["total"] == sum(part.numel() for part in model.parameters())


@pytest.mark.parametrize("embedding", [STANDARD, DEFINE])
def test_a_stream_in_two_pieces_is_read_like_one(embedding):
    torch.manual_seed(1)
    model = build_model(settings(embedding), vocabulary_size=20)
    tokens, targets = torch.randint(20, (2, 7, 3))
    whole, _ = model(tokens, targets)
    first, state = model(tokens[:4], targets[:4])
    second, _ = model(tokens[4:], targets[4:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    without_state, _ = model(tokens[4:], targets[4:])
    assert not torch.allclose(without_state, second)


def test_dropout_acts_on_embeddings_between_layers_and_on_the_output():
    context = LstmContext(50, hidden_size=50, output_dim=50, layers=1, dropout=0.5)
    output, _ = context(torch.ones(1, 4, 50))
    assert 0.3 < (output == 0).float().mean() < 0.7
    assert len({tuple(row.tolist()) for row in output[0]}) == 4
    context.eval()
    assert (context(torch.ones(1, 4, 50))[0] != 0).all()


def test_input_layers_are_described_for_the_record():
    define = build_model(settings(DEFINE), vocabulary_size=20).input_layer
    assert describe_input_layer(define) == {
        "type": "define",
        "map_dim": 8,
        "expand_dim": 16,
        "output_dim": 12,
        "depth": 3,
        "groups": [4, 2, 1],
    }
    standard = build_model(settings(STANDARD), vocabulary_size=20).input_layer
    assert describe_input_layer(standard) == {"type": "standard", "output_dim": 12}


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (settings({**DEFINE, "map_dim": 10}), r"embedding\.map_dim is 10, expected a multiple"),
        (settings({**DEFINE, "max_groups": 3}), r"embedding\.max_groups is 3, expected a power"),
        (settings(STANDARD, layers=1), "hidden_size is 10, expected 12"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(run, message):
    with pytest.raises(UserError, match=message):
        build_model(run, vocabulary_size=20)

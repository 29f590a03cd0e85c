"""Perplexities that can be compared: the definition, batch sizes, cache and dynamic evaluation."""

import math

import numpy as np
import pytest
import torch

from onmt_define.errors import UserError
from onmt_define.lm.dynamic_evaluation import DynamicEvaluation
from onmt_define.lm.evaluation import perplexity
from onmt_define.lm.model import Reading, build_model
from onmt_define.lm.neural_cache import NeuralCache

V, EOS = 20, 3
SOFTMAX = {"type": "softmax", "tied": True, "cutoffs": [], "factor": 1, "bias": True}
LSTM = {
    "model": "lstm",
    "map": {"type": "standard", "dim": 8},
    "classifier": SOFTMAX,
    "hidden_size": 12,
    "layers": 2,
    "dropout": 0.5,
}
UNIT = {"output_dim": 8, "expand_dim": 16, "depth": 3, "max_groups": 4}
XL = {
    "model": "transformer-xl",
    "map": {"type": "standard", "dim": 8},
    "classifier": {**SOFTMAX, "type": "adaptive", "cutoffs": [5, 12]},
    "model_dim": 8,
    "inner_dim": 16,
    "heads": 2,
    "head_dim": 3,
    "layers": 2,
    "memory": 7,
    "bptt": 5,
    "dropout": 0.5,
    "attention_dropout": 0.5,
}


def lively(settings):
    """A model whose predictions depend on the text."""
    torch.manual_seed(1)
    model = build_model(settings, V)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.4)
    return model


def text(length):
    return np.random.default_rng(1).integers(V, size=length).astype(np.int32)


@pytest.mark.parametrize("settings", [LSTM, {**LSTM, "unit": UNIT}])
def test_perplexity_equals_a_plain_loop_over_all_tokens(settings):
    model, ids = lively(settings), text(300)
    total, previous, state = 0.0, EOS, None
    model.eval()
    with torch.no_grad():
        for token in ids.tolist():
            hidden, state, _ = model.context(model.input_layer(torch.tensor([[previous]])), state)
            scores = hidden[0, 0].double() @ model.output_layer.table.double().t()
            total -= torch.log_softmax(scores + model.output_layer.bias, 0)[token].item()
            previous = token
    model.train()

    assert perplexity(model, ids, eos=EOS) == pytest.approx(math.exp(total / 300), rel=1e-6)
    assert model.training


def test_perplexity_of_a_model_that_can_be_computed_by_hand():
    # One token type has bias log 3, the other three 0: it is seen with probability 3/6.
    model = build_model({**LSTM, "map": {"type": "standard", "dim": 1}}, 4)
    with torch.no_grad():
        model.output_layer.table.zero_()
        model.output_layer.bias.copy_(torch.tensor([math.log(3), 0, 0, 0]))
    ids = np.array([0, 0, 1, 2], dtype=np.int32)
    by_hand = (2 * 2 * 6 * 6) ** (1 / 4)
    assert perplexity(model, ids, eos=3) == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize("settings", [LSTM, XL])
def test_perplexity_is_the_same_for_batches_of_one_and_ten(settings):
    model, ids = lively(settings), text(5003)
    exact = perplexity(model, ids, eos=0)
    for warm_up, equal in ((50, True), (0, False)):
        value = perplexity(model, ids, eos=0, batch_size=10, warm_up=warm_up)
        assert (value == pytest.approx(exact, rel=1e-6)) is equal
    assert perplexity(model, ids, eos=0, batch_size=10) == exact  # too short to be cut


def test_a_longer_memory_changes_a_transformer_xl_for_the_evaluation_alone():
    model, ids = lively(XL), text(200)
    values = [perplexity(model, ids, eos=0, memory=memory) for memory in (0, 7, None, 30)]
    assert values[1] == values[2]
    assert len(set(values)) == 3
    assert model.context.memory == 7


def test_neural_cache_equals_a_plain_loop():
    torch.manual_seed(1)
    time, batch, size, weight, sharpness = 12, 2, 4, 0.3, 0.7
    hidden, targets = torch.randn(time, batch, 3), torch.randint(4, (time, batch))
    losses = torch.rand(time, batch) + 0.5
    cache = NeuralCache(size, weight, sharpness)
    pieces = [slice(0, 5), slice(5, 6), slice(6, 12)]
    mixed = torch.cat([cache.mix(losses[p], hidden[p], targets[p]) for p in pieces])

    for b in range(batch):
        for t in range(time):
            own = math.exp(-losses[t, b].item())
            seen = range(max(0, t - size), t)
            scores = {i: math.exp(sharpness * (hidden[t, b] @ hidden[i, b]).item()) for i in seen}
            hits = sum(scores[i] for i in seen if targets[i, b] == targets[t, b])
            share = weight if t else 0
            expected = (1 - share) * own + (share * hits / sum(scores.values()) if t else 0)
            assert math.exp(-mixed[t, b].item()) == pytest.approx(expected, rel=1e-5)


def test_cache_and_dynamic_evaluation_help_on_a_text_that_repeats_itself():
    model = lively(LSTM)
    ids = np.tile(text(10), 30)
    before = [parameter.clone() for parameter in model.parameters()]
    plain = perplexity(model, ids, eos=0)
    assert perplexity(model, ids, eos=0, cache=NeuralCache(100, 0.5, 5.0)) < 0.9 * plain
    assert perplexity(model, ids, eos=0, dynamic=DynamicEvaluation(0.5)) < 0.9 * plain
    assert all(map(torch.equal, before, model.parameters()))
    held = perplexity(model, ids, eos=0, dynamic=DynamicEvaluation(0.5, decay=1.0))
    assert held == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: NeuralCache(0), "the neural cache's size is 0, expected at least 1"),
        (lambda: NeuralCache(5, 1.0), r"weight is 1\.0, expected from 0 up to"),
        (lambda: DynamicEvaluation(0.0), r"dynamic evaluation is 0\.0, expected more than 0"),
        (lambda: NeuralCache(5, 0.1, float("nan")), "sharpness is nan, expected a finite number"),
        (lambda: NeuralCache(5, 0.1, float("inf")), "sharpness is inf, expected a finite number"),
        (
            lambda: DynamicEvaluation(float("inf")),
            r"is inf, expected more than 0 and at most 1,000",
        ),
        (lambda: DynamicEvaluation(1e308), r"is 1e\+308, expected more than 0 and at most 1,000"),
        (lambda: DynamicEvaluation(1.0, 2.0), r"decay of dynamic evaluation is 2\.0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


class EveryTokenOnce(torch.nn.Module):
    """Costs 1 nat a token; its weight's gradient says how often each token was learned from."""

    def __init__(self, tokens):
        super().__init__()
        self.context = torch.nn.Identity()
        self.weight = torch.nn.Parameter(torch.zeros(tokens, dtype=torch.float64))

    def forward(self, tokens, targets, state):
        losses = 1 + self.weight[targets]
        return Reading(losses, None, 0.0, losses[..., None])


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_dynamic_evaluation_learns_from_nothing_that_is_yet_to_be_scored(batch_size):
    """A token that was learned from costs less than 1 nat when it is scored after that."""
    ids = np.arange(11_000)
    model = EveryTokenOnce(len(ids))
    value = perplexity(model, ids, 0, batch_size, dynamic=DynamicEvaluation(0.1))
    assert value == pytest.approx(math.e, rel=1e-12)

"""Transformer-XL's layers as CUDA graphs: the same losses, gradients and memories as without."""

import pytest
import torch
from test_lm_models import V, build

from onmt_define.lm import graphed_layers
from onmt_define.lm.nested import map_tensors

# Reading begins with an empty memory, and a text's last batch is shorter.
LENGTHS = (6, 6, 6, 3, 6, 6)


class Place(torch.autograd.Function):
    """What a tensor is in a graph: another one, always at the same place."""

    @staticmethod
    def forward(ctx, tensor, place):
        return place.view_as(place)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def record_on_cpu(passes, samples):
    """A graph's use of memory without a GPU: each call first overwrites the last one's inputs."""
    places = [sample.detach() for sample in samples]

    def replay(*tensors):
        calls.append(len(tensors[0]))
        for place, tensor in zip(places, tensors, strict=True):
            place.copy_(tensor.detach())
        return passes(Place.apply(tensors[0], places[0]), *places[1:])

    calls = replay.calls = []
    return replay


def train(model, device="cpu", dtype=None):
    """Losses and gradients of every batch, with weights that change."""
    results, state = [], None
    torch.manual_seed(3)
    for length in LENGTHS:
        tokens, targets = torch.randint(V, (2, length, 2)).to(device)
        with torch.autocast(device, dtype or torch.bfloat16, enabled=dtype is not None):
            reading = model(tokens, targets, state)
        reading.losses.mean().backward()
        state = map_tensors(torch.Tensor.detach, reading.state)
        parameters = [*model.parameters()]
        results += [reading.losses.detach(), *(parameter.grad.clone() for parameter in parameters)]
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    return results + map_tensors(torch.clone, state)


@pytest.mark.parametrize("memory", [5, 6, 9])
def test_batches_of_full_length_after_a_full_memory_are_replayed(monkeypatch, memory):
    monkeypatch.setattr(graphed_layers, "record", record_on_cpu)
    graphed, plain = (build("transformer-xl", memory=memory) for _ in range(2))
    graphed.context.graph_layers(6)
    torch.testing.assert_close(train(graphed), train(plain))
    assert graphed.context.graphed.replay.calls == [6] * (4 if memory < 9 else 3)


def test_layers_whose_weights_have_moved_are_read_one_by_one(monkeypatch):
    monkeypatch.setattr(graphed_layers, "record", record_on_cpu)
    model, plain = build("transformer-xl"), build("transformer-xl")
    model.context.graph_layers(6)
    train(model), train(plain)
    calls = model.context.graphed.replay.calls
    before = len(calls)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    torch.testing.assert_close(train(model), train(plain))
    assert len(calls) == before


def test_evaluation_does_without_graphs(monkeypatch):
    monkeypatch.setattr(graphed_layers, "record", record_on_cpu)
    model = build("transformer-xl")
    model.context.graph_layers(6)
    model.eval()
    train(model)
    assert model.context.graphed.replay is None


def test_what_cannot_be_recorded_is_said_once(monkeypatch, capsys):
    model, plain = build("transformer-xl"), build("transformer-xl")
    model.context.graph_layers(6)  # there is no CUDA device

    def record(passes, samples):
        raise RuntimeError("no room\nfor a graph")

    monkeypatch.setattr(graphed_layers, "record", record)
    torch.testing.assert_close(train(model), train(plain))
    message = "Transformer-XL's layers are launched one by one: no room\n"
    assert capsys.readouterr().err == message


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_graphs_on_a_gpu_give_the_same(dtype, compiled):
    results = []
    for graphed in (True, False):
        model = build("transformer-xl", memory=6).cuda()
        if compiled:
            model.context.compile_layers()
        if graphed:
            model.context.graph_layers(6)
        results.append(train(model, "cuda", dtype))
        assert not graphed or model.context.graphed.replay
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype is None else {"rtol": 0.05, "atol": 2e-3}
    torch.testing.assert_close(*results, **tolerance)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_each_replay_drops_something_else():
    model = build("transformer-xl", memory=6, dropout=0.5).cuda()
    model.context.graph_layers(6)
    inputs = torch.randn(6, 2, 16, device="cuda", requires_grad=True)
    state = [torch.zeros(6, 2, 16, device="cuda")] * 3
    first, second = (model.context(inputs, state)[0].clone() for _ in range(2))
    assert not torch.equal(first, second)

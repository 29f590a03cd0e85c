"""What language models do otherwise on a GPU: losses in one pass, and CUDA graphs of steps."""

import copy

import pytest
import torch
from test_lm_models import build
from torch.nn import functional

from onmt_define.lm import token_losses as losses_module
from onmt_define.lm.batches import Batch
from onmt_define.lm.classifiers import AdaptiveSoftmax
from onmt_define.lm.cuda_graphs import give_up_recording
from onmt_define.lm.graphed_gradients import GraphedGradients, Recorder, can_be_graphed
from onmt_define.lm.nested import map_tensors

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
TOLERANCE = {None: 2e-3, torch.float16: 3e-3, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True)
def tf32_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def distance(found, expected):
    found, expected = found.double().cpu(), expected.double().cpu()
    return ((found - expected).norm() / expected.norm()).item()


def autocast(dtype):
    return torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "width", "classes"), [(5, 7, 13), (300, 410, 20_003), (1, 8, 1)])
def test_losses_in_one_pass_are_the_cross_entropy(dtype, rows, width, classes):
    torch.manual_seed(0)
    hidden, table, bias = (
        torch.randn(shape, device="cuda", requires_grad=True)
        for shape in ((rows, width), (classes, width), (classes,))
    )
    targets = torch.randint(classes, (rows,), device="cuda")
    weights = torch.rand(rows, device="cuda")
    assert losses_module._kernels_run(targets.device)
    with autocast(dtype):
        losses = losses_module.token_losses(hidden * 0.1, table, bias, targets)
    found = torch.autograd.grad(losses @ weights, [hidden, table, bias])
    exact = [part.detach().double().requires_grad_() for part in (hidden, table, bias)]
    logits = functional.linear(exact[0] * 0.1, *exact[1:])
    expected = functional.cross_entropy(logits, targets, reduction="none")
    if classes > 1:
        assert distance(losses, expected) < TOLERANCE[dtype]
        gradients = torch.autograd.grad(expected @ weights.double(), exact)
        for ours, theirs in zip(found, gradients, strict=True):
            assert distance(ours, theirs) < TOLERANCE[dtype]
    assert losses.dtype == torch.float32


def test_bands_without_a_token_have_losses_and_gradients():
    table = torch.nn.Parameter(torch.randn(30, 8, device="cuda"))
    classifier = AdaptiveSoftmax([table], [None] * 3, [10, 20], True).cuda()
    targets = torch.tensor([3, 25, 9], device="cuda")
    losses = classifier(torch.randn(3, 8, device="cuda"), targets, [2, 0, 1])
    losses.sum().backward()
    assert losses.isfinite().all()
    assert all(parameter.grad is not None for parameter in classifier.parameters())


def batch_of(length):
    tokens = torch.randint(20, (length + 1, 2), device="cuda")
    return Batch(tokens[:-1], tokens[1:], False, [])


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("layer", ["standard", "define"])
def test_graphs_of_several_lengths_give_the_gradients_of_the_model(dtype, layer):
    model = build("awd-lstm", layer, activation_penalty=2.0, temporal_penalty=1.0).cuda()
    assert can_be_graphed(model, "tf32", 1)
    graphed, state, own_state = GraphedGradients(model, 0.25), None, None
    for length in (9, 4, 9, 9, 4):
        batch = batch_of(length)
        with autocast(dtype):
            loss, state = graphed(batch, state)
            found = [loss, *(parameter.grad.clone() for parameter in model.parameters())]
            model.zero_grad()
            reading = model(batch.inputs, batch.targets, own_state)
        (reading.losses.mean() + reading.penalty).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        own_state = map_tensors(torch.Tensor.detach, reading.state)
        expected = [
            reading.losses.mean().detach(),
            *(parameter.grad for parameter in model.parameters()),
        ]
        for ours, theirs in zip(found, expected, strict=True):
            assert distance(ours, theirs) < TOLERANCE[dtype]
        del reading  # a recording would wait for the stream of what is left of this pass
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= parameter.grad


def test_recording_leaves_random_numbers_and_follows_moved_weights():
    model = build("awd-lstm", weight_dropout=0.5, dropout=0.3).cuda()
    first, second = batch_of(6), batch_of(3)
    results = []
    for known in (False, True):
        graphed = GraphedGradients(copy.deepcopy(model), 0.0)
        if known:  # as in a training that wasn't stopped in between
            graphed(first, None), graphed(second, None)
        torch.cuda.manual_seed(1)
        _, state = graphed(first, None)
        loss, _ = graphed(second, state)
        results.append([loss, *(parameter.grad.clone() for parameter in graphed.parameters)])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))
    for parameter in graphed.parameters:
        parameter.data = torch.zeros_like(parameter)
    loss, _ = graphed(first, None)
    torch.testing.assert_close(loss.exp().item(), 20.0)


def test_after_a_failed_recording_the_reason_is_known_and_random_numbers_are_drawn():
    numbers = torch.zeros(3, device="cuda")
    with pytest.raises(RuntimeError) as failure:
        Recorder().record(lambda: numbers.normal_().sum().item())
    reason = give_up_recording(failure.value)
    assert "capturing" in reason
    assert "\n" not in reason
    assert numbers.normal_().isfinite().all()
    replay = Recorder().record(numbers.normal_)
    before = numbers.clone()
    replay()
    assert not torch.equal(numbers, before)


def test_bands_and_float16_are_not_graphed():
    assert not can_be_graphed(build("lstm", "one table in bands").cuda(), "tf32", 1)
    assert not can_be_graphed(build("lstm").cuda(), "float16", 1)
    assert not can_be_graphed(build("lstm").cuda(), "tf32", 2)
    assert not can_be_graphed(build("transformer-xl").cuda(), "tf32", 1)

"""The LSTM's own kernels on a GPU against torch's layer in double precision."""

import pytest
import torch
from torch import nn

from onmt_define.lm import lstm_recurrence
from onmt_define.lm.lstm_recurrence import RecurrentLayer, can_use_kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
TOLERANCE = {None: 2e-3, torch.float16: 3e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def tf32_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def autocast(dtype):
    return torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None)


def results(layer, inputs, state, direction):
    inputs = inputs.detach().clone().requires_grad_()
    outputs, (hidden, cell) = layer(inputs, state)
    outputs.backward(direction.to(outputs.dtype))
    gradients = [parameter.grad for parameter in layer.parameters()]
    return [
        part.detach().double().cpu() for part in (outputs, hidden, cell, inputs.grad, *gradients)
    ]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("time", "batch", "input_size", "width"),
    [(70, 20, 400, 1150), (33, 1, 7, 5), (1, 3, 64, 64), (12, 60, 128, 1024), (3, 64, 130, 1024)],
)
def test_the_kernels_equal_torchs_layer(dtype, time, batch, input_size, width):
    torch.manual_seed(0)
    layer = RecurrentLayer(input_size, width)
    inputs = torch.randn(time, batch, input_size) * 0.5
    state = tuple(torch.randn(2, 1, batch, width) * 0.5)
    direction = torch.randn(time, batch, width)
    exact = nn.LSTM(input_size, width).double()
    exact.load_state_dict(layer.state_dict())
    as_double = [part.double() for part in (inputs, *state, direction)]
    expected = results(exact, as_double[0], tuple(as_double[1:3]), as_double[3])
    on_gpu = [part.cuda() for part in (inputs, *state, direction)]
    assert can_use_kernels(on_gpu[0], width)
    with autocast(dtype):
        found = results(layer.cuda(), on_gpu[0], tuple(on_gpu[1:3]), on_gpu[3])
    for ours, theirs in zip(found, expected, strict=True):
        assert ((ours - theirs).norm() / theirs.norm()).item() < TOLERANCE[dtype]


def test_exact_products_and_large_batches_stay_with_cudnn():
    inputs = torch.zeros(2, 3, 4, device="cuda")
    assert can_use_kernels(inputs, 64)
    assert not can_use_kernels(torch.zeros(2, 65, 4, device="cuda"), 64)
    assert not can_use_kernels(inputs, 64 * 1024)
    torch.set_float32_matmul_precision("highest")
    assert not can_use_kernels(inputs, 64)


def test_too_little_shared_memory_means_fewer_stages_and_then_cudnn(monkeypatch, capsys):
    lstm_kernels = lstm_recurrence.lstm_kernels
    inputs, device = torch.zeros(2, 64, 4, device="cuda"), torch.device("cuda", 0)
    most = lstm_kernels._stages(1, torch.bfloat16, device)
    assert most > lstm_kernels._stages(64, torch.float32, device) > 0
    monkeypatch.setattr(lstm_kernels, "OTHER_SHARED_BYTES", 2**30)
    lstm_recurrence._kernels_run.cache_clear()
    layer = RecurrentLayer(4, 64).cuda()
    assert [layer(inputs)[0].shape for _ in range(2)] == [(2, 64, 64)] * 2
    assert capsys.readouterr().err.count("run on cuDNN") == 1
    lstm_recurrence._kernels_run.cache_clear()


def test_a_training_step_drops_recurrent_weights_and_carries_the_state(monkeypatch):
    torch.manual_seed(0)
    layer, inputs = RecurrentLayer(8, 64).cuda(), torch.randn(6, 4, 8, device="cuda")
    whole, _ = layer(inputs)
    first, state = layer(inputs[:2])
    rest, _ = layer(inputs[2:], state)
    torch.testing.assert_close(torch.cat([first, rest]), whole)
    layer.weight_dropout = 0.5
    dropped, _ = layer(inputs)
    torch.testing.assert_close(dropped[0], whole[0])  # no state yet, so no recurrent weight counts
    assert not torch.allclose(dropped[1], whole[1])
    monkeypatch.setattr(lstm_recurrence, "can_use_kernels", lambda *_: False)
    layer.weight_dropout = 0.0
    torch.testing.assert_close(layer(inputs)[0], whole, atol=2e-3, rtol=2e-3)

"""One LSTM layer, its recurrent weights dropped if asked for, with our own kernels on a GPU."""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from onmt_define.lm.aligned import aligned_linear, fill_up
from onmt_define.lm.reporting import report

try:
    from onmt_define.lm import lstm_kernels
except ImportError:  # torch's CPU builds come without Triton
    lstm_kernels = None

# More streams keep a GPU busy with cuDNN too.
MOST_STREAMS = 64
DTYPES = (torch.float32, torch.bfloat16, torch.float16)

# Masked weights are new tensors in every step, so cuDNN copies each layer's weights together.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")


class RecurrentLayer(nn.LSTM):
    """One LSTM layer that drops recurrent weights, the same for all steps of a sequence.

    Shapes: as torch.nn.LSTM with one layer, time first. With our kernels no gradient goes to the
    state before the first step, which truncated back-propagation has no use for.
    """

    weight_dropout = 0.0

    def forward(
        self, inputs: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if state is None:
            zeros = inputs.new_zeros(1, inputs.shape[1], self.hidden_size)
            state = (zeros, zeros)
        recurrent = self.weight_hh_l0
        if self.training and self.weight_dropout:
            recurrent = functional.dropout(recurrent, self.weight_dropout)
        weights = [self.weight_ih_l0, recurrent, self.bias_ih_l0, self.bias_hh_l0]
        if can_use_kernels(inputs, self.hidden_size):
            return run_kernels(inputs, state, *weights)
        outputs, hidden, cell = torch._VF.lstm(
            inputs, state, weights, True, 1, 0.0, self.training, False, False
        )
        return outputs, (hidden, cell)


def can_use_kernels(inputs: Tensor, width: int) -> bool:
    """Whether the kernels serve these inputs (T, B, ...): on a GPU, products of 16 bits or TF32."""
    batch = inputs.shape[1]
    if lstm_kernels is None or not inputs.is_cuda or batch > MOST_STREAMS:
        return False
    dtype = inputs.dtype
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
    if dtype not in DTYPES:
        return False
    if dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest":
        return False
    return _kernels_run(width, lstm_kernels.stream_block(batch), dtype, inputs.device)


@functools.cache
def _kernels_run(width: int, batch: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a GPU has room for a layer, and runs a step of it, before the first real one.

    Triton needs a C compiler, and a GPU that isn't too old. What is compiled here isn't again.
    """
    reason = "a GPU with fewer processors or less shared memory than the layer's width needs"
    if lstm_kernels.fits(width, batch, dtype, device):
        padded = width + -width % lstm_kernels.K_BLOCK
        gates = torch.zeros(1, batch, 4, padded, device=device, dtype=dtype)
        weights, hidden = gates.new_zeros(4, padded, padded), gates.new_zeros(2, batch, padded)
        cells = hidden.float()
        try:
            lstm_kernels.forward(gates, weights, hidden, cells)
            lstm_kernels.backward(hidden[1:], gates, cells, weights)
            return True
        except Exception as error:  # Triton has no closed list of what it raises
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    report(f"LSTM layers of {width} units, {dtype}, run on cuDNN: {reason}")
    return False


def run_kernels(
    inputs: Tensor,
    state: tuple[Tensor, Tensor],
    input_weights: Tensor,
    recurrent_weights: Tensor,
    input_bias: Tensor,
    recurrent_bias: Tensor,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """An LSTM layer in autocast's dtype, cells in float32; shapes as in `RecurrentLayer`.

    Widths are padded with zeros, whose units stay zero.
    """
    width = recurrent_weights.shape[1]
    missing = -width % lstm_kernels.K_BLOCK
    bias = fill_up((input_bias + recurrent_bias).unflatten(0, (4, width)), 0, missing)
    input_weights = fill_up(input_weights.unflatten(0, (4, width)), 0, 0, 0, missing)
    gates = aligned_linear(inputs, input_weights.flatten(0, 1), bias.flatten())
    recurrent_weights = recurrent_weights.to(gates.dtype).unflatten(0, (4, width))
    recurrent_weights = fill_up(recurrent_weights, 0, missing, 0, missing)
    hidden, cell = (fill_up(part.detach(), 0, missing) for part in state)
    with torch.autocast("cuda", enabled=False):
        outputs, cells = _Recurrence.apply(
            gates.unflatten(-1, (4, -1)), recurrent_weights, hidden, cell
        )
    outputs = outputs[..., :width]
    return outputs, (outputs[-1:].detach(), cells[-1:, :, :width])


class _Recurrence(torch.autograd.Function):
    """Hidden vectors and cells of all steps, (T, B, H), both; overwrites the gates' memory."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, weights: Tensor, first_hidden: Tensor, first_cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        time, batch, _, width = gates.shape
        hidden = gates.new_empty(time + 1, batch, width)
        cells = gates.new_empty(time + 1, batch, width, dtype=torch.float32)
        hidden[:1], cells[:1] = first_hidden, first_cell
        lstm_kernels.forward(gates, weights, hidden, cells)
        ctx.save_for_backward(gates, weights, hidden, cells)
        outputs, later_cells = hidden[1:], cells[1:]
        ctx.mark_non_differentiable(later_cells)
        return outputs, later_cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor, _: Any) -> tuple[Any, ...]:
        gates, weights, hidden, cells = ctx.saved_tensors
        transposed = weights.transpose(1, 2).contiguous()
        grad_gates = lstm_kernels.backward(grad_outputs.contiguous(), gates, cells, transposed)
        rows = grad_gates.flatten(2).flatten(0, 1)
        grad_weights = rows.T @ hidden[:-1].flatten(0, 1)
        return grad_gates, grad_weights.view_as(weights), None, None

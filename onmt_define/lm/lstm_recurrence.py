"""One LSTM layer, its recurrent weights dropped if asked for, with our own kernels on a GPU."""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

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
    if lstm_kernels is None or not inputs.is_cuda or inputs.shape[1] > MOST_STREAMS:
        return False
    autocast = torch.is_autocast_enabled("cuda")
    if not autocast and torch.get_float32_matmul_precision() == "highest":
        return False
    if not autocast and inputs.dtype not in DTYPES:
        return False
    return lstm_kernels.fits(width, inputs.device) and _kernels_run(inputs.device)


@functools.cache
def _kernels_run(device: torch.device) -> bool:
    """Try the kernels once: Triton needs a C compiler and a GPU that isn't too old."""
    width = 2 * lstm_kernels.K_BLOCK
    gates = torch.zeros(1, 1, 4, width, device=device)
    weights, state = gates.new_zeros(4, width, width), gates.new_zeros(2, 1, width)
    try:
        lstm_kernels.forward(gates, weights, state, state.clone())
        lstm_kernels.backward(state[1:], gates, state, weights)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        warnings.warn(f"LSTM layers run on cuDNN on {device}: {reason}", stacklevel=2)
        return False
    return True


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
    bias = (input_bias + recurrent_bias).unflatten(0, (4, width))
    input_weights = functional.pad(input_weights.unflatten(0, (4, width)), (0, 0, 0, missing))
    gates = functional.linear(
        inputs, input_weights.flatten(0, 1), functional.pad(bias, (0, missing)).flatten()
    )
    recurrent_weights = recurrent_weights.to(gates.dtype).unflatten(0, (4, width))
    recurrent_weights = functional.pad(recurrent_weights, (0, missing, 0, missing))
    hidden, cell = (functional.pad(part.detach(), (0, missing)) for part in state)
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

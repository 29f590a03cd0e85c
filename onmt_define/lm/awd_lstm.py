"""AWD-LSTM (Merity et al., 2018b, 'Regularizing and Optimizing LSTM Language Models'; Table 1c).

An LSTM whose recurrent weights are dropped, with three rates of variational dropout and penalties
on large and on jumping outputs. The embedding dropout is `onmt_define.lm.dropouts.WordDropout`, the
random lengths of back-propagation are in `batches`, the averaging of NT-ASGD in `averaging`.
"""

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.lm.dropouts import VariationalDropout
from onmt_define.lm.lstm import LstmContext, State

# The masked weights are new tensors in every step, so cuDNN copies each layer's weights together:
# 80 MB for the paper's sizes, nothing beside the 70 dependent steps that follow.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")


class WeightDropLstm(nn.LSTM):
    """One LSTM layer that drops recurrent weights, the same for all steps of a sequence.

    The whole sequence is one call of the library, cuDNN's on a GPU.

    Shapes: as torch.nn.LSTM with one layer, time first.
    """

    weight_dropout = 0.0

    def forward(
        self, inputs: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if not self.training or self.weight_dropout == 0:
            return super().forward(inputs, state)
        if state is None:
            zeros = inputs.new_zeros(1, inputs.shape[1], self.hidden_size)
            state = (zeros, zeros)
        recurrent = functional.dropout(self.weight_hh_l0, self.weight_dropout)
        weights = [self.weight_ih_l0, recurrent, self.bias_ih_l0, self.bias_hh_l0]
        outputs, hidden, cell = torch._VF.lstm(
            inputs, state, weights, True, 1, 0.0, True, False, False
        )
        return outputs, (hidden, cell)


class AwdLstmContext(LstmContext):
    """The LSTM stack with weight dropout and activation penalties.

    Shapes: (time, batch, input_dim) to (time, batch, output_dim).

    Args:
        input_dim, hidden_size, output_dim, layers: see `LstmContext`.
        dropout: of the last layer's output.
        input_dropout: of the embeddings.
        hidden_dropout: between the layers.
        weight_dropout: of each layer's recurrent weights.
        activation_penalty: alpha, weight of the mean square of the output (AR).
        temporal_penalty: beta, weight of the mean square of its change from step to step (TAR).
    """

    layer = WeightDropLstm

    def __init__(
        self,
        input_dim: int,
        hidden_size: int,
        output_dim: int,
        layers: int,
        dropout: float = 0.0,
        *,
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        activation_penalty: float = 0.0,
        temporal_penalty: float = 0.0,
    ) -> None:
        super().__init__(input_dim, hidden_size, output_dim, layers, dropout)
        self.input_dropout = VariationalDropout(input_dropout)
        self.hidden_dropout = VariationalDropout(hidden_dropout)
        self.activation_penalty = activation_penalty
        self.temporal_penalty = temporal_penalty
        for layer in self.layers:
            layer.weight_dropout = weight_dropout

    def forward(
        self, inputs: Tensor, state: State | None = None
    ) -> tuple[Tensor, State, Tensor | float]:
        """Read on from `state`, see `LstmContext`; the last result is to be added to the loss."""
        outputs, raw, state = self.read(inputs, state)
        return outputs, state, self._penalty(outputs, raw) if self.training else 0.0

    def _penalty(self, outputs: Tensor, raw: Tensor) -> Tensor | float:
        penalty = 0.0
        if self.activation_penalty:
            penalty = self.activation_penalty * outputs.float().square().mean()
        if self.temporal_penalty and len(raw) > 1:
            penalty = penalty + self.temporal_penalty * functional.mse_loss(raw[1:], raw[:-1])
        return penalty

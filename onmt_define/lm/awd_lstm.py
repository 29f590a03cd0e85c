"""AWD-LSTM (Merity et al., 2018b, 'Regularizing and Optimizing LSTM Language Models'; Table 1c).

An LSTM whose recurrent weights are dropped, with three rates of variational dropout and penalties
on large and on jumping outputs. The embedding dropout is `onmt_define.lm.dropouts.WordDropout`, the
random lengths of back-propagation are in `batches`, the averaging of NT-ASGD in `averaging`.
"""

from torch import Tensor
from torch.nn import functional

from onmt_define.lm.dropouts import VariationalDropout
from onmt_define.lm.lstm import LstmContext, State


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

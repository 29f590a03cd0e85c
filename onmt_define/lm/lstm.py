"""The LSTM of the paper's WikiText-103 tables (section 4.1.1, Tables 1a, 6, 7 and 8)."""

from itertools import pairwise

from torch import Tensor, nn

from onmt_define.lm.dropouts import VariationalDropout
from onmt_define.lm.lstm_recurrence import RecurrentLayer

State = list[tuple[Tensor, Tensor]]


class LstmContext(nn.Module):
    """A stack of LSTM layers: input_dim -> hidden_size -> ... -> hidden_size -> output_dim.

    The last layer is as wide as the classifier's token table, so nothing projects in between.
    One dropout mask over time acts on the embeddings, between the layers and on the output.

    Shapes: (time, batch, input_dim) to (time, batch, output_dim).
    """

    def __init__(
        self, input_dim: int, hidden_size: int, output_dim: int, layers: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        widths = [input_dim, *[hidden_size] * (layers - 1), output_dim]
        self.layers = nn.ModuleList(RecurrentLayer(*sizes) for sizes in pairwise(widths))
        self.input_dropout = VariationalDropout(dropout)
        self.hidden_dropout = VariationalDropout(dropout)
        self.output_dropout = VariationalDropout(dropout)

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State, float]:
        """Read on from `state`, one (h, c) pair a layer; None is the state before any token.

        Returns:
            The outputs, the new state, and 0, since nothing but the loss is penalised.
        """
        outputs, _, state = self.read(inputs, state)
        return outputs, state, 0.0

    def read(self, inputs: Tensor, state: State | None) -> tuple[Tensor, Tensor, State]:
        """The outputs behind their dropout, the same before it, and the new state."""
        hidden, new_state = self.input_dropout(inputs), []
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            raw, layer_state = layer(hidden, state[index] if state else None)
            hidden = (self.output_dropout if index == last else self.hidden_dropout)(raw)
            new_state.append(layer_state)
        return hidden, raw, new_state

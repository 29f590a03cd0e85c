"""Transformer-XL (Dai et al., 2019): attention with relative positions over a memory (Table 2).

d  model_dim   width of the stream between the layers
H  heads, each head_dim wide; the paper keeps 10 heads of 41 at every d
T  time        tokens read at once
M  memory      tokens before them that each layer remembers, without gradient
K  M + T       what a token can attend to
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.lm.aligned import likes_alignment, linear
from onmt_define.lm.graphed_layers import GraphedLayers

# Scores whose rows begin at multiples of 16 bytes are read with a GPU's newest kernels.
KEYS_ALIGNMENT = 8

State = list[Tensor]


class TransformerXlContext(nn.Module):
    """A stack of layers in which every token sees the tokens before it and each layer's memory.

    In evaluation every token sees exactly the `memory` tokens before it in each layer (and itself),
    however many tokens are read at once, so a perplexity doesn't depend on that number. In training
    it also sees all earlier tokens of its own batch, which costs nothing.

    Shapes: (time, batch, model_dim) to the same.

    Args:
        model_dim, heads, head_dim, layers: see above.
        inner_dim: width inside the feed-forward layers.
        memory: M; `memory` may be set anew for an evaluation with a longer one.
        dropout: of the embeddings, the positions, each sublayer's result and the output.
        attention_dropout: of the attention's weights.
        longest_distance: larger distances than a training shows count as this one.
        scale: factor of the vectors that come in.
    """

    def __init__(
        self,
        model_dim: int,
        inner_dim: int,
        heads: int,
        head_dim: int,
        layers: int,
        memory: int,
        dropout: float = 0.0,
        *,
        attention_dropout: float = 0.0,
        longest_distance: int | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.model_dim, self.memory, self.scale = model_dim, memory, scale
        self.longest_distance = longest_distance
        self.layers = nn.ModuleList(
            TransformerXlLayer(model_dim, inner_dim, heads, head_dim, dropout, attention_dropout)
            for _ in range(layers)
        )
        self.content_bias = nn.Parameter(torch.empty(heads, head_dim))
        self.position_bias = nn.Parameter(torch.empty(heads, head_dim))
        self.dropout = nn.Dropout(dropout)
        self.graphed: GraphedLayers | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.02) for weights and gains around 1, as in the original."""
        for name, parameter in self.named_parameters():
            if name.endswith("norm.weight"):
                nn.init.normal_(parameter, 1.0, 0.02)
            elif name.endswith(".bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State, float]:
        """Read on from `state`, the memory (at most M, batch, d) of each layer; None is none.

        Returns:
            The outputs, the new memories, and 0, since nothing but the loss is penalised.
        """
        if state is None:
            state = [inputs.new_zeros(0, *inputs.shape[1:], dtype=torch.float32)] * len(self.layers)
        read = self.graphed if self.graphed and self.training else self.read
        return *read(inputs, state), 0.0

    def read(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """The same for a state that isn't None: outputs and new memories."""
        # In float32 under autocast too, as all layers' results, which torch.compile likes.
        hidden = self.dropout(inputs.float() * self.scale)
        time, length = len(hidden), len(state[0]) + len(hidden)
        # A GPU likes a round number of keys: the first ones are zeros that nobody sees.
        unseen = -length % KEYS_ALIGNMENT if likes_alignment(hidden) else 0
        positions = self.dropout(self.positions(unseen + length, hidden))
        hides = self.hides(time, length, hidden.device)
        hides = functional.pad(hides, (unseen, 0), value=True)
        biases = self.content_bias, self.position_bias
        new_state = []
        for layer, memory in zip(self.layers, state, strict=True):
            # Read before the layer runs: what it sees is the layer's own input.
            new_state.append(self._remember(memory, hidden.detach()))
            # Compiled for the shapes of a training alone.
            read = layer if self.training else layer.forward
            hidden = read(hidden, memory, positions, hides, *biases)
        return self.dropout(hidden), new_state

    def _remember(self, memory: Tensor, hidden: Tensor) -> Tensor:
        """The last M of both; most batches are long enough that nothing has to be copied."""
        read = hidden if len(hidden) >= self.memory else torch.cat([memory, hidden])
        return read[max(0, len(read) - self.memory) :]

    def graph_layers(self, time: int) -> None:
        """In training on one GPU, let CUDA graphs launch all layers at once for T tokens."""
        self.graphed = GraphedLayers(self, time)

    def compile_layers(self) -> None:
        """Let torch.compile fuse each layer; equal layers share what is compiled."""
        for layer in self.layers:
            layer.compile(dynamic=False)

    def positions(self, length: int, like: Tensor) -> Tensor:
        """Sines and cosines of the distances length - 1 to 0: (K, d)."""
        distances = torch.arange(length - 1, -1, -1, device=like.device, dtype=torch.float32)
        if self.longest_distance is not None:
            distances = distances.clamp(max=self.longest_distance)
        exponents = torch.arange(0, self.model_dim, 2, device=like.device) / self.model_dim
        angles = distances[:, None] * 10_000**-exponents
        waves = torch.cat([angles.sin(), angles.cos()], -1)[:, : self.model_dim]
        return waves.to(like.dtype)

    def hides(self, time: int, length: int, device: torch.device) -> Tensor:
        """What each token must not see: bool (T, K)."""
        everything = torch.ones(time, length, dtype=torch.bool, device=device)
        hidden = everything.triu(1 + length - time)
        if self.training:
            return hidden
        return hidden | everything.tril(length - time - self.memory - 1)


class TransformerXlLayer(nn.Module):
    """Attention over memory and tokens, then a feed-forward network, each added and normalised.

    Shapes: hidden (T, batch, d), memory (M, batch, d), positions (K, d), hides (T, K), two biases
    (H, head_dim) to (T, batch, d). Where K is larger than M + T, the first keys are zeros.
    """

    def __init__(
        self,
        model_dim: int,
        inner_dim: int,
        heads: int,
        head_dim: int,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.query = nn.Linear(model_dim, heads * head_dim, bias=False)
        self.key_value = nn.Linear(model_dim, 2 * heads * head_dim, bias=False)
        self.position = nn.Linear(model_dim, heads * head_dim, bias=False)
        self.output = nn.Linear(heads * head_dim, model_dim, bias=False)
        self.attention_norm = nn.LayerNorm(model_dim)
        self.inner = nn.Linear(model_dim, inner_dim)
        self.outer = nn.Linear(inner_dim, model_dim)
        self.feed_forward_norm = nn.LayerNorm(model_dim)
        self.dropout = nn.Dropout(dropout)
        self.attention_dropout = attention_dropout

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor,
        positions: Tensor,
        hides: Tensor,
        content_bias: Tensor,
        position_bias: Tensor,
    ) -> Tensor:
        attended = self.attend(hidden, memory, positions, hides, content_bias, position_bias)
        hidden = self.attention_norm(hidden + self.dropout(attended))
        inner = self.dropout(functional.relu(_apply(self.inner, hidden)))
        return self.feed_forward_norm(hidden + self.dropout(_apply(self.outer, inner)))

    def attend(
        self,
        hidden: Tensor,
        memory: Tensor,
        positions: Tensor,
        hides: Tensor,
        content_bias: Tensor,
        position_bias: Tensor,
    ) -> Tensor:
        """Attention as in the original's equation (section 3.3): content and position, each biased.

        (q + u) k + (q + v) r, where r depends on the distance between query and key alone.
        """
        unseen = hidden.new_zeros(len(positions) - len(memory) - len(hidden), *hidden.shape[1:])
        read = torch.cat([unseen, memory, hidden])
        key, value = _apply(self.key_value, read).chunk(2, -1)
        query, key, value = (
            self._by_head(part) for part in (_apply(self.query, hidden), key, value)
        )
        distance = self._by_head(_apply(self.position, positions).unsqueeze(1)).squeeze(1)
        content_bias, position_bias = (
            self._aligned(bias)[:, None, None] for bias in (content_bias, position_bias)
        )
        # One product for each head with the queries of all streams, as they share the distances.
        asking = (query + position_bias).flatten(1, 2)
        by_distance = (asking @ distance.transpose(-1, -2)).unflatten(1, query.shape[1:3])
        scores = (query + content_bias) @ key.transpose(-1, -2) + relative_shift(by_distance)
        scores = (scores * self.head_dim**-0.5).masked_fill(hides, -torch.inf)
        # With its dtype named, autocast leaves it in the scores' own: half the memory traffic.
        weights = scores.softmax(-1, dtype=scores.dtype)
        weights = functional.dropout(weights, self.attention_dropout, self.training)
        attended = (weights @ value)[..., : self.head_dim]
        return _apply(self.output, attended.permute(2, 1, 0, 3).flatten(2))

    def _by_head(self, vectors: Tensor) -> Tensor:
        """(time, batch, H * head_dim) to (H, batch, time, head_dim), perhaps with zeros behind."""
        return self._aligned(vectors.unflatten(-1, (self.heads, self.head_dim))).permute(2, 1, 0, 3)

    def _aligned(self, vectors: Tensor) -> Tensor:
        """Zeros behind each vector up to a multiple of 8, which tensor cores need."""
        return functional.pad(vectors, (0, -self.head_dim % 8))


def _apply(layer: nn.Linear, vectors: Tensor) -> Tensor:
    return linear(vectors, layer.weight, layer.bias)


def relative_shift(scores: Tensor) -> Tensor:
    """From scores by distance to scores by key, without looking anything up.

    Column p of the input belongs to distance K - 1 - p. Query i and key j are K - T + i - j apart,
    so row i has to move T - 1 - i columns to the left. With one column more in front, reading the
    same numbers in rows that are one shorter does just that. What comes in from the next row lies
    behind the query and has to be hidden.

    Shapes: (..., T, K) to the same.
    """
    *batch, time, length = scores.shape
    padded = functional.pad(scores, (1, 0)).view(*batch, length + 1, time)
    return padded[..., 1:, :].reshape(*batch, time, length)

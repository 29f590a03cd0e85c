"""An OpenNMT-py Transformer run on a packed batch, with its own layers and parameters.

The same function as the model's `forward` followed by OpenNMT-py's loss, apart from padding; a
test compares both. Parts that repeat are compiled once each where that pays.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.opennmt.packed_training.attention import PaddedAttention, flash_attention
from onmt_define.opennmt.packed_training.batches import PackedBatch, Side
from onmt_define.opennmt.packed_training.loss import cross_entropy

Attention = Callable[..., Tensor]


class PackedModel(nn.Module):
    """Loss of a batch under an OpenNMT-py model, whose parameters it shares.

    Args:
        model: `onmt.models.NMTModel` with Transformer encoder and decoder.
        label_smoothing: as OpenNMT-py's option.
        padding: id of the target's padding, which isn't predicted.
        compute_dtype: of the matrix products; parameters and losses stay float32.
        flash: use `flash_attention`, which needs a GPU and half precision.
        compiled: compile layers and loss; needs batches of always the same shape.
    """

    def __init__(
        self,
        model: Any,
        *,
        label_smoothing: float,
        padding: int,
        compute_dtype: torch.dtype = torch.float32,
        flash: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.compute_dtype = compute_dtype
        self.label_smoothing, self.padding = label_smoothing, padding
        self._flash, self._compiled = flash, compiled

        def part(function: Callable[..., Any]) -> Callable[..., Any]:
            return torch.compile(function, dynamic=False) if compiled else function

        self._add_positions = part(_add_positions)
        self._encoder_layer = part(_encoder_layer)
        self._decoder_layer = part(_decoder_layer)
        self._loss = part(self._classify)

    def forward(self, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        """Summed loss in nats and number of right predictions, both without dimensions."""
        with torch.autocast(
            batch.labels.device.type,
            self.compute_dtype,
            enabled=self.compute_dtype != torch.float32,
        ):
            encoder, decoder = self.model.encoder, self.model.decoder
            attention = self._attention(batch)
            memory = self._embed(encoder.embeddings, batch.source)
            for layer in encoder.transformer:
                memory = self._encoder_layer(layer, memory, batch.source, attention)
            memory = encoder.layer_norm(memory)
            hidden = self._embed(decoder.embeddings, batch.target)
            for layer in decoder.transformer_layers:
                hidden = self._decoder_layer(
                    layer, hidden, memory, batch.target, batch.source, attention
                )
            return self._loss(decoder.layer_norm, self.model.generator, hidden, batch.labels)

    def _attention(self, batch: PackedBatch) -> Attention:
        if self._flash:
            return flash_attention
        heads = self.model.encoder.transformer[0].self_attn.head_count
        return PaddedAttention(batch.source, batch.target, heads)

    def _embed(self, embeddings: Any, side: Side) -> Tensor:
        # Not compiled: the embedding brings its own kernels, or is a user's.
        vectors = embeddings.word_lut(side.tokens[None])[0]
        if not embeddings.position_encoding:
            return embeddings.dropout(vectors)
        table = embeddings.make_embedding.pe.pe
        return self._add_positions(vectors, table, side.positions, embeddings.dropout)

    def _classify(
        self, layer_norm: nn.Module, classifier: nn.Module, hidden: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        scores = classifier(layer_norm(hidden))
        if not self._compiled:
            return cross_entropy(scores.float(), labels, self.padding, self.label_smoothing)
        loss = functional.cross_entropy(
            scores.float(),
            labels,
            ignore_index=self.padding,
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
        right = (scores.argmax(-1) == labels) & (labels != self.padding)
        return loss, right.sum()


def _add_positions(vectors: Tensor, table: Tensor, positions: Tensor, dropout: nn.Module) -> Tensor:
    return dropout(vectors * math.sqrt(vectors.shape[-1]) + table[positions, 0])


def _encoder_layer(layer: Any, inputs: Tensor, side: Side, attention: Attention) -> Tensor:
    normed = layer.layer_norm(inputs)
    context = _attend(layer.self_attn, normed, normed, side, side, attention, causal=False)
    return layer.feed_forward(layer.dropout(context) + inputs)


def _decoder_layer(
    layer: Any, inputs: Tensor, memory: Tensor, target: Side, source: Side, attention: Attention
) -> Tensor:
    normed = layer.layer_norm_1(inputs)
    context = _attend(layer.self_attn, normed, normed, target, target, attention, causal=True)
    query = layer.dropout(context) + inputs
    normed = layer.layer_norm_2(query)
    context = _attend(layer.context_attn, normed, memory, target, source, attention, causal=False)
    return layer.feed_forward(layer.dropout(context) + query)


def _attend(
    layer: Any,
    queries: Tensor,
    memory: Tensor,
    of_queries: Side,
    of_memory: Side,
    attention: Attention,
    *,
    causal: bool,
) -> Tensor:
    def heads(vectors: Tensor) -> Tensor:
        return vectors.unflatten(-1, (-1, layer.dim_per_head))

    context = attention(
        heads(layer.linear_query(queries)),
        heads(layer.linear_keys(memory)),
        heads(layer.linear_values(memory)),
        of_queries,
        of_memory,
        causal=causal,
        dropout=layer.dropout_p if layer.training else 0.0,
    )
    return layer.final_linear(context.flatten(-2))

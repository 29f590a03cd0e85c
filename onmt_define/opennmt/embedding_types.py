"""The embedding types that come with the package: standard, projective, define, compressed."""

import math
from argparse import Namespace

import torch
from torch import Tensor, nn

from onmt_define.embeddings import CompressedEmbedding, DefineEmbedding, ProjectiveEmbedding
from onmt_define.opennmt.checkpoint_files import COMPRESSED, STANDARD
from onmt_define.opennmt.registry import register_embedding


@register_embedding(STANDARD)
class StandardEmbedding(nn.Embedding):
    """OpenNMT-py's own table, here so that it has a name; its own code builds it."""


@register_embedding("projective")
class OpenNMTProjectiveEmbedding(ProjectiveEmbedding):
    """A short table and one linear map."""

    @classmethod
    def from_opt(
        cls, opt: Namespace, num_embeddings: int, embedding_dim: int, padding_idx: int
    ) -> "OpenNMTProjectiveEmbedding":
        """Build from OpenNMT-py options."""
        return cls(num_embeddings, embedding_dim, opt.define_map_dim, padding_idx=padding_idx)

    @property
    def output_weight(self) -> nn.Parameter:
        """What the vectors are proportional to."""
        return self.projection.weight

    def description(self) -> str:
        """The sizes, in the paper's symbols."""
        return f"n={self.map_dim} m={self.embedding_dim}"


@register_embedding("define")
class OpenNMTDefineEmbedding(DefineEmbedding):
    """A short table and a DeFINE unit.

    Where sinusoidal positions are added, OpenNMT-py first multiplies the embedding by the square
    root of its width, which suits a table of small entries. The unit's output has entries of about
    unit size and would drown the positions (measured: nine BLEU points), so it is divided by the
    same root here. Reduce's weights start twice as large as Xavier's, so that the vectors have a
    root mean square of 1.3 beside the positions' 0.71 (measured: docs/results/translation.md).
    """

    scale = 1.0
    initial_gain = 1.0

    @classmethod
    def from_opt(
        cls, opt: Namespace, num_embeddings: int, embedding_dim: int, padding_idx: int
    ) -> "OpenNMTDefineEmbedding":
        """Build from OpenNMT-py options."""
        embedding = cls(
            num_embeddings,
            embedding_dim,
            opt.define_map_dim,
            opt.define_expand_dim,
            opt.define_depth,
            opt.define_groups,
            padding_idx=padding_idx,
            dropout=opt.define_dropout,
            activation=opt.define_activation,
        )
        if opt.position_encoding:
            embedding.scale = 1 / math.sqrt(embedding_dim)
            embedding.initial_gain = 2.0
        return embedding

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.output_weight.mul_(self.initial_gain)

    @property
    def output_weight(self) -> nn.Parameter:
        """What the vectors are proportional to as long as Reduce's bias is zero."""
        return self.unit.maps[-1].kernel

    def compute(self, tokens: Tensor) -> Tensor:
        return super().compute(tokens) * self.scale

    def description(self) -> str:
        """The sizes, in the paper's symbols."""
        unit = self.unit
        groups = ",".join(map(str, unit.groups))
        return (
            f"n={unit.input_dim} k={unit.expand_dim} m={unit.output_dim} N={unit.depth} "
            f"groups={groups}"
        )


@register_embedding(COMPRESSED)
class OpenNMTCompressedEmbedding(CompressedEmbedding):
    """Codes and codebooks that `onmt_define compress` made of a trained model's input layer."""

    @classmethod
    def from_opt(
        cls, opt: Namespace, num_embeddings: int, embedding_dim: int, padding_idx: int
    ) -> "OpenNMTCompressedEmbedding":
        """Build from a checkpoint's options; no command has these two as options."""
        return cls(
            num_embeddings,
            embedding_dim,
            opt.compressed_codebooks,
            opt.compressed_codes,
            padding_idx=padding_idx,
        )

"""Factorised input layers in plain PyTorch; nothing here knows of OpenNMT-py or the workflow."""

from onmt_define.embeddings.adaptive_embedding import AdaptiveEmbedding
from onmt_define.embeddings.compressed_embedding import CompressedEmbedding
from onmt_define.embeddings.define_embedding import DefineEmbedding
from onmt_define.embeddings.define_unit import DefineUnit
from onmt_define.embeddings.dimensions import DimensionError
from onmt_define.embeddings.factorised_embedding import FactorisedEmbedding
from onmt_define.embeddings.group_linear import GroupLinear
from onmt_define.embeddings.projective_embedding import ProjectiveEmbedding

__all__ = [
    "AdaptiveEmbedding",
    "CompressedEmbedding",
    "DefineEmbedding",
    "DefineUnit",
    "DimensionError",
    "FactorisedEmbedding",
    "GroupLinear",
    "ProjectiveEmbedding",
]

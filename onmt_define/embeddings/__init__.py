"""Factorised input layers in plain PyTorch; nothing here knows of OpenNMT-py or the workflow."""

from onmt_define.embeddings.define_embedding import DefineEmbedding
from onmt_define.embeddings.define_unit import DefineUnit
from onmt_define.embeddings.dimensions import DimensionError
from onmt_define.embeddings.group_linear import GroupLinear
from onmt_define.embeddings.projective_embedding import ProjectiveEmbedding

__all__ = ["DefineEmbedding", "DefineUnit", "DimensionError", "GroupLinear", "ProjectiveEmbedding"]

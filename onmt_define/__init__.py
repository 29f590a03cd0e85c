"""DeFINE input layers (Mehta et al., ICLR 2020) for PyTorch models and for OpenNMT-py.

`from onmt_define import DefineUnit, DefineEmbedding` gives plain `torch.nn.Module`s. The import
is lazy: neither torch nor OpenNMT-py is loaded before a name is used, because Python itself
imports this package at start-up (see `onmt_define.opennmt.startup`).
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_EMBEDDING_NAMES = (
    "AdaptiveEmbedding",
    "DefineEmbedding",
    "DefineUnit",
    "DimensionError",
    "GroupLinear",
    "ProjectiveEmbedding",
)

__all__ = [*_EMBEDDING_NAMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _EMBEDDING_NAMES:
        return getattr(import_module("onmt_define.embeddings"), name)
    raise AttributeError(f"module 'onmt_define' has no attribute {name!r}")

"""The registry of embedding types, in the style of OpenNMT-py's own for encoders and decoders.

A type of your own takes a class and a decorator; `forward` maps token ids (batch, length) to
vectors (batch, length, embedding_dim):

    @register_embedding("mine")
    class MyEmbedding(torch.nn.Module):
        @classmethod
        def from_opt(cls, opt, num_embeddings, embedding_dim, padding_idx):
            return cls(...)

        def reset_parameters(self): ...    # called once, after OpenNMT-py's own initialisation

        output_weight = ...    # only for embedding_init_rms: what the vectors are proportional to

Name the module that holds it under the entry point group `onmt_define.embeddings` of your package
and the stock commands know `embedding_type: mine`.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from onmt_define.errors import UserError

ENTRY_POINT_GROUP = "onmt_define.embeddings"

_classes: dict[str, Any] = {}


def register_embedding(name: str) -> Callable[[type], type]:
    """Make a class with a `from_opt` class method available as `embedding_type: name`.

    Raises:
        ValueError: if the name is taken.
    """

    def register(cls: type) -> type:
        if _classes.get(name, cls) is not cls:
            raise ValueError(f"the embedding type {name!r} is already {_classes[name].__name__}")
        _classes[name] = cls
        return cls

    return register


def build_embedding(
    opt: Namespace, num_embeddings: int, embedding_dim: int, padding_idx: int
) -> Any:
    """The embedding module that `opt.embedding_type` names, built from the options.

    Raises:
        UserError: if no installed package registers that type.
    """
    types = embedding_types()
    if opt.embedding_type not in types:
        raise UserError(
            f"embedding_type is {opt.embedding_type!r}, which no installed package registers, "
            f"expected one of {', '.join(sorted(types))}"
        )
    return types[opt.embedding_type].from_opt(opt, num_embeddings, embedding_dim, padding_idx)


def embedding_types() -> dict[str, Any]:
    """All embedding types by name: ours and those of installed packages."""
    import onmt_define.opennmt.embedding_types  # noqa: F401  registers ours

    _load_installed()
    return _classes


@cache
def _load_installed() -> None:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        entry_point.load()

"""A classifier that shares the token table of a factorised input layer.

The table has n columns and the decoder's output m, so a learned map leads from m to n first:

    scores = table @ (projection @ hidden) + bias
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class FactorisedClassifier(nn.Module):
    """What `share_decoder_embeddings` builds above a `define` or `projective` embedding.

    Shapes: decoder output (..., hidden_size) to scores (..., vocabulary).

    The parameters lie in this module itself, not in modules below it, because OpenNMT-py finds
    the parameters of a classifier by their last name alone.

    Args:
        table: (vocabulary, map_dim), the very parameter of the input layer.
        hidden_size: m, width of the decoder's output.
    """

    def __init__(self, table: nn.Parameter, hidden_size: int) -> None:
        super().__init__()
        vocabulary, map_dim = table.shape
        self.weight = table
        self.projection = nn.Parameter(torch.empty(map_dim, hidden_size))
        self.bias = nn.Parameter(torch.empty(vocabulary))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform projection, zero bias; the table belongs to the input layer."""
        nn.init.xavier_uniform_(self.projection)
        nn.init.zeros_(self.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.linear(functional.linear(hidden, self.projection), self.weight, self.bias)


def fold_classifier(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Multiply table and projection in a classifier's state: the state of a plain one."""
    folded = dict(state)
    for name in state:
        if name.split(".")[-1] == "projection":
            weight = name.removesuffix("projection") + "weight"
            product = folded[weight].float() @ folded.pop(name).float()
            folded[weight] = product.to(state[weight].dtype)
    return folded

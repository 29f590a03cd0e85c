"""`update_vocab` for factorised embeddings: known tokens keep their vectors, new ones start fresh.

OpenNMT-py's own function knows the name of a standard table only.
"""

from typing import Any

import torch
from onmt.inputters.inputter import dict_to_vocabs
from onmt.utils.logging import logger
from torch import Tensor

MAP_TABLE = "embeddings.make_embedding.emb_luts.0.map_table.weight"


@torch.no_grad()
def use_embeddings_from_checkpoint(vocabs: Any, model: Any, checkpoint: dict[str, Any]) -> None:
    """Copy the rows of all tokens that the checkpoint knows and take them out of the checkpoint.

    Args:
        vocabs: the new vocabularies.
        model: built for them, with fresh parameters.
        checkpoint: afterwards without whatever depends on the vocabulary.
    """
    known = dict_to_vocabs(checkpoint["vocab"])
    rows = {side: _common_rows(vocabs[side], known[side]) for side in ("src", "tgt")}
    parameters = model.state_dict()
    for side, part in (("src", "encoder"), ("tgt", "decoder")):
        if f"{part}.{MAP_TABLE}" in parameters:
            old = checkpoint["model"].pop(f"{part}.{MAP_TABLE}")
            _copy_rows(old, parameters[f"{part}.{MAP_TABLE}"], rows[side])
            logger.info("%s: %d new tokens", side, len(vocabs[side]) - len(rows[side][0]))
    for name, old in list(checkpoint["generator"].items()):
        if name.split(".")[-1] in ("weight", "bias") and len(old) == len(known["tgt"]):
            _copy_rows(
                checkpoint["generator"].pop(name), parameters[f"generator.{name}"], rows["tgt"]
            )


def _common_rows(vocab: Any, known: Any) -> tuple[list[int], list[int]]:
    """New and old ids of the tokens in both vocabularies."""
    pairs = [
        (new, known.lookup_token(token))
        for new, token in enumerate(vocab.ids_to_tokens)
        if token in known
    ]
    return [new for new, _ in pairs], [old for _, old in pairs]


def _copy_rows(old: Tensor, new: Tensor, rows: tuple[list[int], list[int]]) -> None:
    new_ids, old_ids = rows
    new[new_ids] = old[old_ids].to(new.dtype)

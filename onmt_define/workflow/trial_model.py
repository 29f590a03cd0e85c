"""Runs a model of a configuration's options once, before anything is fetched.

OpenNMT-py doesn't compare most of its model options; a combination that can't work shows itself
when the model is built or sees its first batch, in the workflow after the corpus was prepared.
"""

from argparse import Namespace
from typing import Any

import pyonmttok
import torch

from onmt_define.errors import UserError

# A wider model isn't tried: it would take gigabytes.
WIDEST = 4096


def check_model(opt: Namespace) -> None:
    """Build a model with these options, validated before, and run it on one short sentence.

    Layers that repeat are left out, and the vocabularies hold one word each.

    Raises:
        UserError: if OpenNMT-py fails at it, with what it says.
    """
    from onmt.model_builder import build_base_model

    if max(opt.enc_hid_size, opt.src_word_vec_size, opt.transformer_ff) > WIDEST:
        return
    settings = Namespace(**vars(opt))
    if opt.enc_layers == opt.dec_layers:
        settings.enc_layers = settings.dec_layers = 1
    try:
        with torch.random.fork_rng(devices=[]):
            model = build_base_model(settings, _vocabularies(opt.share_vocab))
            sentence = torch.ones(1, 3, 1, dtype=torch.long)
            model(sentence, sentence, torch.tensor([3]))
    except Exception as error:  # whatever OpenNMT-py and torch raise at options they don't check
        reason = " ".join(str(error).split()) or "no reason given"
        raise UserError(
            f"OpenNMT-py can't run a model with these options ({type(error).__name__}: {reason})"
        ) from error


def _vocabularies(shared: bool) -> dict[str, Any]:
    from onmt.constants import DefaultTokens, ModelTask

    specials = [DefaultTokens.UNK, DefaultTokens.PAD, DefaultTokens.BOS, DefaultTokens.EOS]
    source, target = (
        pyonmttok.build_vocab_from_tokens([word], special_tokens=specials)
        for word in ("source", "target")
    )
    return {
        "src": source,
        "tgt": source if shared else target,
        "data_task": ModelTask.SEQ2SEQ,
        "decoder_start_token": DefaultTokens.BOS,
    }

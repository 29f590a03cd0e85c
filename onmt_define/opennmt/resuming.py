"""Refuses to go on with a model of another embedding than the one asked for, or a compressed one.

So too with one that the packed loop, if it is asked for, can't train.

With `train_from`, OpenNMT-py takes the model's options from the checkpoint and doesn't say that it
disregards those it was given.
"""

import re
from argparse import Namespace
from typing import Any

from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files
from onmt_define.opennmt.packed_training.support import is_packed, refuse_unsupported_model

# Text and loss are made for what the command says, the model is as the checkpoint has it.
OF_TEXT_AND_MODEL = ("model_task", "copy_attn", "n_src_feats")
FREEZING = ("freeze_word_vecs_enc", "freeze_word_vecs_dec", "freeze_encoder", "freeze_decoder")
# Of the other types, every option counts.
OPTIONS_OF_TYPE = {"standard": (), "projective": ("define_map_dim",)}


def refuse_another_model(parser: Any, opt: Namespace) -> None:
    """Compare the embedding options that were set, not the defaults, with the checkpoint's.

    Raises:
        UserError: naming the option, its value and the checkpoint's; or a checkpoint that can't be
            read, of which a spawned worker could only say so with a traceback.
    """
    if not getattr(opt, "train_from", None):
        return
    checkpoint = checkpoint_files.load(opt.train_from, lazily=True)
    saved = {"embedding_type": checkpoint_files.embedding_type(checkpoint)}
    if saved["embedding_type"] == checkpoint_files.COMPRESSED:
        raise UserError(
            f"{opt.train_from} holds a compressed input layer, whose codes can't be trained: go on "
            "from the model that it was made of, and compress again"
        )
    _refuse_other_parameters(opt, checkpoint["opt"])
    if not opt.override_opts:
        _refuse_another_task(opt, checkpoint["opt"])
        if is_packed(opt):
            refuse_unsupported_model(checkpoint["opt"], opt.train_from)
    asked_for = _embedding_options_set(parser, opt)
    relevant = OPTIONS_OF_TYPE.get(saved["embedding_type"], asked_for)
    for option in asked_for:
        if option in relevant:
            saved[option] = getattr(checkpoint["opt"], option, parser.get_default(option))
        if option in saved and saved[option] != getattr(opt, option):
            raise UserError(
                f"{option} is {getattr(opt, option)}, but {opt.train_from} was trained with "
                f"{option} {saved[option]} and can only go on so: set the same, or leave it out"
            )


def _refuse_another_task(opt: Namespace, saved: Namespace) -> None:
    for option in OF_TEXT_AND_MODEL:
        now = getattr(opt, option)
        before = getattr(saved, option, now)
        if before != now:
            raise UserError(
                f"{option} is {now}, but {opt.train_from} was trained with {option} {before} and "
                "can only go on so: set the same"
            )


def _refuse_other_parameters(opt: Namespace, saved: Namespace) -> None:
    """The optimizer's state in a checkpoint fits the parameters that were trained, no others."""
    if opt.reset_optim not in ("none", "keep_states"):
        return
    for option in FREEZING:
        before, now = getattr(saved, option, False), getattr(opt, option)
        if before != now:
            raise UserError(
                f"{option} is {now}, but {opt.train_from} was trained with {option} {before}, and "
                "the state of its optimizer fits no other: set the same, or reset_optim: states"
            )


def _embedding_options_set(parser: Any, opt: Namespace) -> list[str]:
    given = set()
    for source, settings in parser._source_to_settings.items():
        if source.startswith("config_file|"):
            given |= settings.keys()
        elif source == "command_line":
            _, arguments = settings[""]
            given |= {re.sub("^--?|=.*", "", argument) for argument in arguments}
    return [
        action.dest
        for action in parser._actions
        if (action.dest == "embedding_type" or action.dest.startswith("define_"))
        and (action.dest in given or getattr(opt, action.dest) != action.default)
    ]

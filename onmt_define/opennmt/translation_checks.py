"""Options of `onmt_translate` and `onmt_server`, against each other and against the models.

OpenNMT-py takes all of them, and fails on some when it translates the first sentence, or leaves
them out without a word.
"""

from argparse import Namespace
from pathlib import Path

import torch

from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files
from onmt_define.opennmt.extra_packages import require_quantisation

PHRASE_SEPARATOR = "|||"


def check_translation_options(opt: Namespace) -> None:
    """Raise `UserError` for an option that can't work, or does nothing, beside the others."""
    _check_devices(opt)
    if opt.dump_beam:
        raise UserError(
            f"dump_beam is {opt.dump_beam}, but OpenNMT-py 3.5.1 can't write its beams; leave it "
            "out (n_best and verbose show more than the best translation)"
        )
    if opt.precision == "int8":
        raise UserError(
            "precision is int8, which OpenNMT-py 3.5.1 disregards; fold the model "
            "(onmt_define fold) and use CTranslate2"
        )
    if opt.data_type != "text":
        raise UserError(f"data_type is {opt.data_type!r}, expected text")
    for option, needed in (
        ("tgt_file_prefix", "tgt"),
        ("align_debug", "report_align"),
        ("gold_align", "report_align"),
        ("phrase_table", "replace_unk"),
    ):
        if getattr(opt, option) and not getattr(opt, needed):
            raise UserError(f"{option} needs {needed}, which isn't set")
    if opt.n_best > opt.beam_size:
        raise UserError(f"n_best is {opt.n_best}, expected at most beam_size {opt.beam_size}")
    if opt.phrase_table:
        _check_phrase_table(Path(opt.phrase_table))
    require_quantisation(opt)


def check_models(opt: Namespace) -> None:
    """Raise `UserError` for an option that one of the models doesn't go with.

    A model of average attention has no other: `self_attn_type` becomes its own.
    """
    if opt.report_align and len(opt.models) > 1:
        raise UserError(f"report_align works with one model, but there are {len(opt.models)}")
    model_opts = [_options_of(path) for path in opt.models]
    for path, model_opt in zip(opt.models, model_opts, strict=True):
        _check_quantisation(opt, model_opt, path)
        if opt.report_align:
            _check_alignment(model_opt, path)
        if model_opt.self_attn_type == "average":
            opt.self_attn_type = "average"
        elif opt.self_attn_type == "average":
            raise UserError(
                f"self_attn_type is average, but {path} was trained with "
                f"{model_opt.self_attn_type}, expected scaled-dot or scaled-dot-flash"
            )
    _check_ensemble(opt.models, model_opts)


def _check_devices(opt: Namespace) -> None:
    visible = torch.cuda.device_count()
    for option, highest in (("gpu", opt.gpu), ("gpu_ranks", max(opt.gpu_ranks, default=-1))):
        if highest >= visible:
            raise UserError(
                f"{option} is {getattr(opt, option)}, but {visible} GPUs are visible here; leave "
                "it out to translate on the CPU"
            )
    if opt.world_size > 1 and len(opt.gpu_ranks) < opt.world_size:
        # The workers that have no GPU would fail, and this process wait for them.
        raise UserError(
            f"world_size is {opt.world_size}, but gpu_ranks is {opt.gpu_ranks}, expected a GPU for "
            "each; leave both out to translate on the CPU"
        )


def _check_phrase_table(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"phrase_table: there is no file {path}")
    for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
        if line.count(PHRASE_SEPARATOR) != 1:
            raise UserError(
                f"phrase_table: {path}, line {number} is {line!r}, expected "
                f"source{PHRASE_SEPARATOR}target"
            )


def check_features(opt: Namespace) -> None:
    """Raise `UserError` unless the models were trained with as many word features as are read."""
    for path in opt.models:
        trained = getattr(_options_of(path), "n_src_feats", 0)
        if opt.n_src_feats != trained:
            raise UserError(
                f"n_src_feats is {opt.n_src_feats}, but {path} was trained with n_src_feats "
                f"{trained}"
            )


def _options_of(path: str) -> Namespace:
    from onmt.utils.parse import ArgumentParser  # not before OpenNMT-py is loaded

    saved = checkpoint_files.load(path, lazily=True)["opt"]
    model_opt = ArgumentParser.ckpt_model_opts(saved)
    ArgumentParser.update_model_opts(model_opt)
    return model_opt


def _check_ensemble(paths: list[str], model_opts: list[Namespace]) -> None:
    """Attentions and probabilities of several models are averaged, and have to be of one kind."""
    first, expected = paths[0], model_opts[0]
    if len(paths) > 1 and expected.model_task == "lm":
        raise UserError(f"{first} is a language model, which can't be in an ensemble")
    if len(paths) > 1 and expected.copy_attn:
        raise UserError(f"{first} was trained with copy_attn, which can't be in an ensemble")
    for path, model_opt in zip(paths[1:], model_opts[1:], strict=True):
        for option in ("model_task", "decoder_type", "self_attn_type", "copy_attn"):
            values = getattr(expected, option), getattr(model_opt, option)
            if "scaled" in str(values[0]) and "scaled" in str(values[1]):
                continue  # two ways to compute the same
            if values[0] != values[1]:
                raise UserError(
                    f"{first} has {option} {values[0]} and {path} {values[1]}, expected models "
                    "of one kind for an ensemble"
                )


def _check_quantisation(opt: Namespace, model_opt: Namespace, path: str) -> None:
    trained = getattr(model_opt, "quant_type", "")
    if opt.quant_type.startswith("awq") and opt.quant_type != trained:
        raise UserError(
            f"quant_type is {opt.quant_type}, but the layers of {path} aren't compressed so; "
            "bnb_8bit, bnb_FP4 or bnb_NF4 compress them here"
        )


def _check_alignment(model_opt: Namespace, path: str) -> None:
    if model_opt.model_task == "lm" or model_opt.decoder_type != "transformer":
        raise UserError(
            f"report_align can't be used with {path}, whose decoder is a {model_opt.decoder_type}; "
            "a Transformer with an encoder can report alignments"
        )
    layers = model_opt.dec_layers
    if not -layers <= model_opt.alignment_layer < layers:
        raise UserError(
            f"report_align can't be used with {path}, which was trained with alignment_layer "
            f"{model_opt.alignment_layer} and {layers} decoder layers, expected {-layers} to "
            f"{layers - 1}, and lambda_align for alignments that were learnt"
        )

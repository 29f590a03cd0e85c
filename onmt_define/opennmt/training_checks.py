"""Options of `onmt_train` that OpenNMT-py accepts and fails on once it trains.

What concerns the model itself, which may also be loaded to translate, is in `model_checks`.
"""

from argparse import Namespace
from pathlib import Path

from onmt_define.errors import UserError
from onmt_define.opennmt.extra_packages import require_package, require_quantisation

BITSANDBYTES_OPTIMIZERS = ("adamw8bit", "pagedadamw8bit", "pagedadamw32bit")


def check_training_options(opt: Namespace) -> None:
    """Raise `UserError` for the first option that can't work here or beside the others."""
    _check_packages(opt)
    _check_schedule(opt)
    _check_loss(opt)
    _check_validation(opt)
    if opt.data_type != "text":
        raise UserError(f"data_type is {opt.data_type!r}, expected text")
    if opt.param_init == 0 and not opt.param_init_glorot and not opt.train_from:
        raise UserError("param_init is 0, expected a number above 0 or param_init_glorot")
    if opt.self_attn_type == "average" and opt.aan_useffn and not opt.add_ffnbias:
        raise UserError(
            "aan_useffn needs add_ffnbias, without which OpenNMT-py 3.5.1 can't load the model "
            "again"
        )


def _check_packages(opt: Namespace) -> None:
    if opt.optim in BITSANDBYTES_OPTIMIZERS:
        require_package("optim", opt.optim, "bitsandbytes")
    if opt.optim == "fusedadam":
        for package in ("apex", "fused_adam_cuda"):
            require_package("optim", opt.optim, package)
    if opt.tensorboard:
        require_package("tensorboard", "true", "tensorboard")
    require_quantisation(opt)


def _check_schedule(opt: Namespace) -> None:
    if opt.decay_method in ("noam", "noamwd") and opt.warmup_steps == 0:
        raise UserError(
            f"warmup_steps is 0, expected at least 1 with decay_method {opt.decay_method}"
        )
    if opt.accum_steps[0] != 0:
        raise UserError(
            f"accum_steps is {opt.accum_steps}, expected 0 as the first, from where accum_count is "
            f"{opt.accum_count[0]}"
        )


def _check_loss(opt: Namespace) -> None:
    if opt.generator_function != "softmax":
        raise UserError(
            f"generator_function is {opt.generator_function!r}, expected softmax: OpenNMT-py 3.5.1 "
            "can't train with another"
        )
    if opt.lambda_coverage != 0 and not (opt.coverage_attn and opt.decoder_type == "rnn"):
        raise UserError(
            f"lambda_coverage is {opt.lambda_coverage}, which needs coverage_attn and a "
            "decoder_type rnn"
        )
    if opt.lm_prior_model:
        _check_prior(Path(opt.lm_prior_model), opt.gpu_ranks)
    if opt.zero_out_prompt_loss:
        _check_prompt(opt)


def _check_prior(path: Path, gpu_ranks: list[int]) -> None:
    if path.suffix == ".pt" or not path.is_dir():
        raise UserError(
            f"lm_prior_model is {path}, expected a folder: OpenNMT-py 3.5.1 can only use a "
            "language model that was converted by CTranslate2"
        )
    if not gpu_ranks:
        raise UserError(f"lm_prior_model is {path}, which needs a GPU (gpu_ranks)")


def _check_prompt(opt: Namespace) -> None:
    from onmt.constants import DefaultTokens

    mark = DefaultTokens.MASK_BEFORE
    vocabulary = Path(opt.src_vocab).read_text(encoding="utf-8", errors="replace")
    if opt.model_task != "lm" or mark not in vocabulary:
        raise UserError(
            f"zero_out_prompt_loss needs model_task lm and prompts that end in {mark}, a token of "
            f"src_vocab {opt.src_vocab}"
        )


def _check_validation(opt: Namespace) -> None:
    from onmt.scorers import AVAILABLE_SCORERS
    from onmt.utils.earlystopping import SCORER_BUILDER

    for option, known in (
        ("valid_metrics", AVAILABLE_SCORERS),
        ("early_stopping_criteria", SCORER_BUILDER),
    ):
        for name in getattr(opt, option) or []:
            if name not in known:
                raise UserError(f"{option} is {name!r}, expected one of {', '.join(known)}")
    if opt.valid_metrics and opt.model_task == "lm":
        raise UserError("valid_metrics can't be combined with model_task lm; leave it out")

"""Checks of the configuration's OpenNMT-py options, made before the first job starts."""

import warnings
from argparse import Namespace
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

import onmt_define.opennmt.startup  # noqa: F401  before OpenNMT-py, also outside site-packages
from onmt_define.errors import UserError
from onmt_define.opennmt.packed_training.support import is_packed, refuse_unsupported

TRAINING_SET_BY_THE_WORKFLOW = (
    *("config", "data", "gpu_ranks", "log_file", "packed_data", "save_config", "save_model"),
    *("seed", "src_vocab", "tgt_vocab", "train_from", "world_size"),
)
DECODING_SET_BY_THE_WORKFLOW = (
    *("config", "gpu", "gpu_ranks", "log_file", "model", "output", "save_config", "src"),
    "world_size",
)
PREPARED = "the workflow has prepared the text"
NO_FEATURES = "the workflow's text has no word features"
ONE_LINE_EACH = "the workflow scores one translation a line, and nothing beside it"
# Refused with any value but OpenNMT-py's own default.
UNFIT_FOR_TRAINING = {
    "early_stopping": "a training there ends at train_steps",
    "model_task": "the workflow trains translation models",
    "n_sample": "OpenNMT-py would write samples and not train",
    "save_format": "the workflow keeps a checkpoint in one file",
    "reset_optim": "a training there goes on with its optimizer's state and from its step",
    "single_pass": "OpenNMT-py would pay no regard to train_steps",
    "n_src_feats": NO_FEATURES,
    "parallel_mode": "the workflow spreads a batch over the GPUs, not the model",
    "transforms": PREPARED,
}
UNFIT_FOR_DECODING = {
    **dict.fromkeys(("n_best", "with_score", "report_align", "dump_beam"), ONE_LINE_EACH),
    **dict.fromkeys(("attn_debug", "align_debug", "profile"), ONE_LINE_EACH),
    **dict.fromkeys(("tgt", "tgt_file_prefix", "gold_align"), "references are for scoring only"),
    **dict.fromkeys(("n_src_feats", "src_feats_defaults"), NO_FEATURES),
    "transforms": PREPARED,
}
FILES = (
    *("phrase_table", "pre_word_vecs_enc", "pre_word_vecs_dec"),
    *("src_embeddings", "tgt_embeddings", "both_embeddings"),
)


def check_training_options(options: dict[str, Any], where: str) -> None:
    """Let OpenNMT-py's own parser, the plug-in and a small model judge a run's options.

    Raises:
        UserError: for an unknown option, a bad value or a combination that can't work.
    """
    parser = _command("train")._get_parser()
    _refuse(options, TRAINING_SET_BY_THE_WORKFLOW, where)
    if options.get("train_steps") is None:
        raise UserError(f"{where}: train_steps is missing, expected the number of steps to train")
    for option, value in options.items():
        if value is None:
            raise UserError(f"{where}: {option} is null, expected a value; or leave it out")
    opt = _parse(parser, options, {"data": {}, "src_vocab": "-"}, UNFIT_FOR_TRAINING, where)
    try:
        parser.validate_train_opts(opt)
        parser.update_model_opts(opt)
        parser.validate_model_opts(opt)
        _check_training_combinations(opt)
        from onmt_define.workflow.trial_model import check_model

        check_model(opt)
    except (AssertionError, UserError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error


def _check_training_combinations(opt: Any) -> None:
    if is_packed(opt):
        refuse_unsupported(Namespace(**{**vars(opt), "data": {}}))
    if opt.keep_checkpoint == 0:
        raise UserError("keep_checkpoint is 0, expected at least 1, or -1 to keep all")
    if opt.share_embeddings and not opt.share_vocab:
        raise UserError("share_embeddings is true, but needs share_vocab: true")


def check_decoding_options(options: dict[str, Any], where: str) -> None:
    """Let OpenNMT-py's own parser judge the options for translation.

    Raises:
        UserError: for an unknown option, a bad value or an option that the workflow can't use.
    """
    parser = _command("translate")._get_parser()
    _refuse(options, DECODING_SET_BY_THE_WORKFLOW, where)
    opt = _parse(parser, options, {"model": "-", "src": "-"}, UNFIT_FOR_DECODING, where)
    if opt.min_length > opt.max_length:
        raise UserError(
            f"{where}: min_length is {opt.min_length}, expected at most max_length {opt.max_length}"
        )


def _command(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # OpenNMT-py uses names that torch deprecates
        return import_module(f"onmt.bin.{name}")


def _refuse(options: dict[str, Any], set_by_the_workflow: Iterable[str], where: str) -> None:
    for option in set_by_the_workflow:
        if option in options:
            raise UserError(f"{where}: the option {option!r} is set by the workflow, leave it out")


def _parse(
    parser: Any,
    options: dict[str, Any],
    required: dict[str, Any],
    unfit: dict[str, str],
    where: str,
) -> Any:
    """What the parser makes of the options, with values for those that it can't do without."""

    def exit(status: int = 0, message: str = "") -> None:
        sentence = message.rsplit(" error: ", 1)[-1].split(";", 1)[0]
        raise UserError(f"{where}: {sentence.replace(' in method arg', '')}")

    parser.exit = exit
    actions = {
        key: action for action in parser._actions for key in parser.get_possible_config_keys(action)
    }
    for option, value in options.items():
        # OpenNMT-py reads the word "no" as false, where Python and the workflow see a text.
        if option in actions and actions[option].nargs == 0 and not isinstance(value, bool):
            raise UserError(f"{where}: {option} is {value!r}, expected true or false")
        # OpenNMT-py reads a text as a number, but the workflow counts with it.
        numbers = value if isinstance(value, list) else [value]
        if option in actions and actions[option].type is int and str in map(type, numbers):
            raise UserError(
                f"{where}: {option} is {value!r}, expected a whole number without quotation marks"
            )
    contents = yaml.safe_dump({**options, **required}, allow_unicode=True, sort_keys=False)
    opt, _ = parser.parse_known_args(args=[], config_file_contents=contents)
    for option, reason in unfit.items():
        if getattr(opt, option) != actions[option].default:
            raise UserError(
                f"{where}: the option {option!r} can't be used in the workflow: {reason}"
            )
    for option in FILES:
        path = getattr(opt, option, None)
        if path and not Path(path).is_file():
            raise UserError(f"{where}: {option}: there is no file {path}")
    return opt


def check_averaging(options: dict[str, Any], number: int, where: str) -> None:
    """Raise `UserError` if a training wouldn't leave `number` checkpoints to average."""
    kept = options.get("keep_checkpoint", -1)
    if 0 <= kept < number and number > 1:
        raise UserError(
            f"{where}: translation.averaging is {number}, so keep_checkpoint must be at least as "
            f"large, but it is {kept}"
        )
    saved = options["train_steps"] // options.get("save_checkpoint_steps", 5000)
    if number > max(saved, 1):
        raise UserError(
            f"{where}: translation.averaging is {number}, but a training of "
            f"{options['train_steps']:,} steps saves only {saved} checkpoints; expected a smaller "
            "save_checkpoint_steps"
        )

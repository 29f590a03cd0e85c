"""The plug-in's options, and checks of all options before anything expensive starts."""

import argparse
import difflib
import functools
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from onmt_define.embeddings import DimensionError
from onmt_define.embeddings.define_unit import ACTIVATIONS
from onmt_define.embeddings.weightless import weightless
from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files
from onmt_define.opennmt.embedding_types import STANDARD
from onmt_define.opennmt.initial_size import output_weight
from onmt_define.opennmt.model_checks import check_model_options
from onmt_define.opennmt.option_ranges import numbers_out_of_range
from onmt_define.opennmt.packed_training.support import PACKED, is_packed, refuse_unsupported
from onmt_define.opennmt.registry import build_embedding, embedding_types
from onmt_define.opennmt.resuming import refuse_another_model
from onmt_define.opennmt.training_checks import check_training_options
from onmt_define.opennmt.transform_checks import check_transforms
from onmt_define.opennmt.translation_checks import check_translation_options

OPTION_OF_ARGUMENT = {
    "input_dim": "define_map_dim",
    "map_dim": "define_map_dim",
    "output_dim": "word_vec_size",
    "embedding_dim": "word_vec_size",
    "expand_dim": "define_expand_dim",
    "depth": "define_depth",
    "max_groups": "define_groups",
    "dropout": "define_dropout",
    "activation": "define_activation",
}

PRETRAINED_VECTORS = ("pre_word_vecs_enc", "pre_word_vecs_dec")
PRETRAINED_VECTORS += ("src_embeddings", "tgt_embeddings", "both_embeddings")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the plug-in's options to an OpenNMT-py parser, as model options."""
    group = parser.add_argument_group("Model- DeFINE embeddings (onmt_define)")

    def add(name: str, **settings: Any) -> None:
        group.add_argument(f"--{name}", f"-{name}", **settings)

    add(
        "embedding_type",
        default=STANDARD,
        choices=sorted(embedding_types().keys() - {checkpoint_files.COMPRESSED}),
        help="Input layer of encoder and decoder. 'standard' is OpenNMT-py's own table.",
    )
    add(
        "define_map_dim",
        type=int,
        default=128,
        help="n: width of the token table under a 'define' or 'projective' embedding.",
    )
    add(
        "define_expand_dim",
        type=int,
        default=1024,
        help="k: width towards which the group maps of the DeFINE unit grow.",
    )
    add(
        "define_depth",
        type=int,
        default=3,
        help="N: linear maps in the DeFINE unit, the last one (Reduce) included. "
        "The width it ends in, m, is word_vec_size.",
    )
    add(
        "define_groups",
        type=int,
        default=8,
        help="Largest number of groups in a map of the DeFINE unit, a power of two that "
        "divides define_map_dim.",
    )
    add(
        "define_activation",
        default="tanh",
        choices=list(ACTIVATIONS),
        help="Activation inside the DeFINE unit, before each map but the first.",
    )
    add(
        "define_dropout",
        type=float,
        default=0.0,
        help="Dropout inside the DeFINE unit, before each map but the first.",
    )
    add(
        "embedding_init_rms",
        type=float,
        default=None,
        help="Root mean square of the numbers of the input vectors at the start of a training, as "
        "they are added to the positions, whose own is 0.71. Default: what each embedding_type's "
        "initialisation gives, 1.3 for a 'define' one and about 0.3 for a 'standard' one.",
    )


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the packed training loop to a training parser."""
    group = parser.add_argument_group("Packed training loop (onmt_define)")

    def add(name: str, **settings: Any) -> None:
        group.add_argument(f"--{name}", f"-{name}", **settings)

    add(
        "training_loop",
        default="stock",
        choices=("stock", PACKED),
        help="'packed' trains Transformers faster, many times on a GPU: sentences lie end to end "
        "without padding, texts are read as ids from disk, and nothing waits for the GPU. "
        "batch_size is then the tokens of the longer side. 'stock' is OpenNMT-py's own loop.",
    )
    add(
        "compute_dtype",
        default="bf16",
        choices=("bf16", "fp32"),
        help="Of the matrix products of the packed loop; parameters stay fp32. Where bf16 can't "
        "run, as on a CPU, fp32 is used.",
    )
    add(
        "packed_data",
        default=None,
        metavar="FOLDER",
        help="Where the packed loop keeps the texts as ids, which trainings on the same texts and "
        "vocabularies share. Default: token-ids beside the model.",
    )


def patch_parser(parser_class: Any) -> None:
    """Make OpenNMT-py's parser refuse what it would silently drop or fail on much later."""
    parse_known_args = parser_class.parse_known_args
    validate_model_opts = parser_class.validate_model_opts.__func__
    validate_train_opts = parser_class.validate_train_opts.__func__
    validate_prepare_opts = parser_class.validate_prepare_opts.__func__
    validate_transforms_opts = parser_class._validate_transforms_opts.__func__
    validate_translate_opts = parser_class.validate_translate_opts.__func__

    @functools.wraps(parse_known_args)
    def checked_parse_known_args(self: Any, *args: Any, **settings: Any) -> Any:
        try:
            namespace, unknown = parse_known_args(self, *args, **settings)
        except (argparse.ArgumentTypeError, AssertionError) as error:
            # Of an option of older versions, or of rnn_type SRU without its packages.
            self.error(str(error))
        _refuse_unknown_keys(self)
        _refuse_unknown_options(self, unknown)
        for sentence in numbers_out_of_range(self, namespace):
            self.error(sentence)
        refuse_another_model(self, namespace)
        return namespace, unknown

    def error(self: Any, message: str) -> None:
        """One sentence in place of several screens of usage."""
        if "unknown key" not in message:
            # argparse takes a mistyped config key for an abbreviation and complains of its value.
            _refuse_unknown_keys(self)
        if "embeddings_type" in message:
            message += " (the input layer's option is embedding_type, without the s)"
        message = " ".join(_in_plain_words(message, self).split())
        self.exit(2, f"{self.prog}: error: {message}; --help lists the options\n")

    @functools.wraps(validate_model_opts)
    def checked_validate_model_opts(cls: Any, model_opt: Namespace) -> None:
        validate_model_opts(cls, model_opt)
        check_model_options(model_opt)
        validate_embedding_options(model_opt)

    @functools.wraps(validate_train_opts)
    def checked_validate_train_opts(cls: Any, opt: Namespace) -> None:
        validate_train_opts(cls, opt)
        if opt.world_size > 1 and not opt.gpu_ranks:
            raise UserError(
                f"world_size is {opt.world_size} but gpu_ranks is empty: OpenNMT-py would end "
                f"without training; set gpu_ranks to {list(range(opt.world_size))}, or world_size "
                "to 1"
            )
        check_training_options(opt)

    @functools.wraps(validate_transforms_opts)
    def checked_validate_transforms_opts(cls: Any, opt: Namespace) -> None:
        check_transforms(opt)
        validate_transforms_opts(cls, opt)

    @functools.wraps(validate_prepare_opts)
    def checked_validate_prepare_opts(
        cls: Any, opt: Namespace, build_vocab_only: bool = False
    ) -> None:
        validate_prepare_opts(cls, opt, build_vocab_only)
        if not build_vocab_only and is_packed(opt):
            refuse_unsupported(opt)

    @functools.wraps(validate_translate_opts)
    def checked_validate_translate_opts(cls: Any, opt: Namespace) -> None:
        validate_translate_opts(cls, opt)
        for path in opt.models if opt.world_size > 1 else []:
            model_opt = cls.ckpt_model_opts(checkpoint_files.load(path)["opt"])
            model_opt.parallel_mode, model_opt.world_size = opt.parallel_mode, opt.world_size
            _refuse_tensor_parallel(model_opt)
        check_translation_options(opt)

    parser_class.parse_known_args = checked_parse_known_args
    parser_class.error = error
    parser_class.validate_model_opts = classmethod(checked_validate_model_opts)
    parser_class.validate_train_opts = classmethod(checked_validate_train_opts)
    parser_class.validate_prepare_opts = classmethod(checked_validate_prepare_opts)
    parser_class.validate_translate_opts = classmethod(checked_validate_translate_opts)
    parser_class._validate_transforms_opts = classmethod(checked_validate_transforms_opts)


def _in_plain_words(message: str, parser: Any) -> str:
    """argparse names an option by all its spellings and a type by its name in Python."""
    if match := re.fullmatch(r"(\w+) can't be set to a list '(.*)' unless .*", message):
        return f"{match[1]} is {match[2]}, expected one value"
    if not (match := re.fullmatch(r"argument -+(\w+)\S*: (.*)", message, re.DOTALL)):
        return message
    option, problem = match.groups()
    if match := re.fullmatch(r"invalid (int|float) value: (.*)", problem):
        expected = {"int": "a whole number", "float": "a number"}[match[1]]
        return f"{option} is {match[2]}, expected {expected}"
    if match := re.fullmatch(r"invalid choice: (.*) \(choose from (.*?)\)(.*)", problem):
        return f"{option} is {match[1]}, expected one of {match[2]}{match[3]}"
    if match := re.fullmatch(r"ignored explicit argument '(.*)'", problem):
        helps = {action.dest: action.help for action in parser._actions}
        return f"{option} can't be set to {match[1]} ({helps.get(option)})"
    if problem == "expected at least one argument":
        return f"{option} is empty, expected at least one value"
    return message


def _refuse_unknown_keys(parser: Any) -> None:
    """Stop at a config key that isn't exactly an option.

    A key that is only the beginning of an option would be taken for it by argparse, so the
    parser's own record of where settings came from is read, not only what it left over.
    """
    known = _known_keys(parser)
    for source, settings in parser._source_to_settings.items():
        if source.startswith("config_file|"):
            file = Path(source.split("|", 1)[1]).name
            for key, (action, _) in settings.items():
                if action is None and key not in known:
                    parser.error(f"unknown key {key!r} in {file}{_nearest(key, known)}")


def _refuse_unknown_options(parser: Any, unknown_arguments: list[str]) -> None:
    known = _known_keys(parser)
    for argument in unknown_arguments:
        match = re.match(r"--?([A-Za-z]\w*)", argument)
        if match and match[1] not in known:
            parser.error(f"unknown option {argument!r}{_nearest(match[1], known)}")
    stray = Counter(unknown_arguments) - Counter(_unused_settings(parser))
    if stray:
        words = [word for word in unknown_arguments if word in stray]
        parser.error(f"unrecognized arguments: {' '.join(words)}")


def _unused_settings(parser: Any) -> Iterator[str]:
    """What argparse got to see of config keys that only another command knows."""
    for source, settings in parser._source_to_settings.items():
        for key, (action, value) in settings.items():
            if source.startswith("config_file|") and action is None:
                yield from parser.convert_item_to_command_line_arg(None, key, value)


def _known_keys(parser: Any) -> set[str]:
    """Keys that this command may find in its config: one YAML serves training and vocabulary."""
    keys = _config_keys(parser)
    if "n_sample" in keys:
        keys |= _training_and_vocabulary_keys()
    return keys


@functools.cache
def _training_and_vocabulary_keys() -> frozenset[str]:
    from onmt.opts import data_prepare_opts, train_opts
    from onmt.utils.parse import ArgumentParser

    training, vocabulary = ArgumentParser(), ArgumentParser()
    train_opts(training)
    data_prepare_opts(vocabulary, build_vocab_only=True)
    return frozenset(_config_keys(training) | _config_keys(vocabulary))


def _config_keys(parser: Any) -> set[str]:
    return {
        key
        for action in parser._actions
        for key in parser.get_possible_config_keys(action)
        if not key.startswith("-")
    }


def _nearest(key: str, known: set[str]) -> str:
    longer = sorted((name for name in known if name.startswith(key)), key=len)
    nearest = longer[:1] or difflib.get_close_matches(key, sorted(known), n=1)
    return f", did you mean {nearest[0]!r}?" if nearest else ""


def validate_embedding_options(opt: Namespace) -> None:
    """Check the embedding's options against each other and against the rest of the model.

    Raises:
        UserError: one sentence naming the option, its value and what is expected.
    """
    sized = getattr(opt, "embedding_init_rms", None) is not None
    if sized:
        _refuse_pretrained_vectors(opt, "embedding_init_rms", "they have their size")
    if getattr(opt, "embedding_type", STANDARD) == STANDARD:
        return
    _refuse_unsupported_combinations(opt)
    for width in (opt.src_word_vec_size, opt.tgt_word_vec_size):
        embedding = _check_buildable(opt, width)
        _check_token_table(opt, embedding)
        if sized and output_weight(embedding) is None:
            raise UserError(
                f"embedding_init_rms can't be combined with embedding_type {opt.embedding_type}: "
                f"{type(embedding).__name__} has no output_weight, which would be multiplied"
            )


def _check_token_table(opt: Namespace, embedding: torch.nn.Module) -> None:
    """Two options need the one table of a short vector for each token, under a known name."""
    for option in ("share_decoder_embeddings", "update_vocab"):
        table = getattr(embedding, "map_table", None)
        if getattr(opt, option, False) and not isinstance(table, torch.nn.Embedding):
            raise UserError(
                f"{option} can't be combined with embedding_type {opt.embedding_type}: "
                f"{type(embedding).__name__} has no torch.nn.Embedding called map_table"
            )


def _check_buildable(opt: Namespace, width: int) -> torch.nn.Module:
    try:
        with weightless():
            return build_embedding(opt, 2, width, 1)
    except DimensionError as error:
        option = OPTION_OF_ARGUMENT.get(error.argument, error.argument)
        raise UserError(f"{option} is {error.value!r}, expected {error.expected}") from error


def _refuse_unsupported_combinations(opt: Namespace) -> None:
    what = f"embedding_type {opt.embedding_type}"
    _refuse_pretrained_vectors(opt, what, "pretrained vectors have the width of a standard table")
    if getattr(opt, "lora_embedding", False):
        raise UserError(
            f"lora_embedding can't be combined with {what}: LoRA would replace the token table "
            "alone"
        )
    if getattr(opt, "optim", None) == "sparseadam":
        raise UserError(
            f"optim sparseadam can't be combined with embedding_type {opt.embedding_type}: "
            "the layers above the token table have dense gradients; use adam"
        )
    _refuse_tensor_parallel(opt)


def _refuse_pretrained_vectors(opt: Namespace, what: str, reason: str) -> None:
    for option in PRETRAINED_VECTORS:
        if getattr(opt, option, None):
            raise UserError(f"{option} can't be combined with {what}: {reason}")


def _refuse_tensor_parallel(opt: Namespace) -> None:
    if (
        opt.embedding_type != STANDARD
        and getattr(opt, "parallel_mode", None) == "tensor_parallel"
        and opt.world_size > 1
    ):
        raise UserError(
            f"parallel_mode tensor_parallel can't be combined with embedding_type "
            f"{opt.embedding_type}; use data_parallel"
        )

"""Files and devices that the stock commands ask for, looked at before anything expensive.

OpenNMT-py finds out about a missing or empty file, a mark of word features or a missing GPU
wherever it first stumbles over it, some after loading a model and emptying the output file.
"""

import copy
import functools
import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from onmt_define.errors import UserError
from onmt_define.opennmt import corpora, lora, texts, vocabulary_building
from onmt_define.opennmt.translation_checks import check_features, check_models

OPTION_OF_FILE = {"src vocab": "src_vocab", "tgt vocab": "tgt_vocab"}


def patch_parser(parser_class: Any) -> None:
    """Give OpenNMT-py's checks of files and options one sentence for each mistake."""
    parser_class._validate_file = staticmethod(require_text)
    for name in (
        *("validate_prepare_opts", "validate_train_opts", "validate_translate_opts"),
        *("validate_translate_opts_dynamic", "_validate_transforms_opts", "validate_model_opts"),
    ):
        checked = _in_a_sentence(getattr(parser_class, name).__func__)
        setattr(parser_class, name, classmethod(checked))
    validate_data = parser_class._validate_data.__func__
    validate_prepare_opts = parser_class.validate_prepare_opts.__func__
    validate_train_opts = parser_class.validate_train_opts.__func__

    @functools.wraps(validate_data)
    def checked_validate_data(cls: Any, opt: Namespace) -> None:
        corpora.require_settings(opt)
        validate_data(cls, opt)

    @functools.wraps(validate_prepare_opts)
    def checked_validate_prepare_opts(
        cls: Any, opt: Namespace, build_vocab_only: bool = False
    ) -> None:
        if build_vocab_only:
            vocabulary_building.require_options(opt)
            for option in ("src_vocab", "tgt_vocab"):
                _require_folder(option, getattr(opt, option))
        validate_prepare_opts(cls, opt, build_vocab_only)
        if build_vocab_only:
            vocabulary_building.require_new_files(opt)
        elif not getattr(opt, "train_from", None) or opt.update_vocab:
            for feature in range(opt.n_src_feats):
                require_text(f"{opt.src_vocab}_feat{feature}", "src vocab")
        corpora.require_texts(opt)

    @functools.wraps(validate_train_opts)
    def checked_validate_train_opts(cls: Any, opt: Namespace) -> None:
        validate_train_opts(cls, opt)
        _require_no_file_above("save_model", opt.save_model)
        if opt.single_pass:
            raise UserError(
                "single_pass is on, with which OpenNMT-py 3.5.1 would train for ever: leave it out "
                "and set train_steps"
            )
        if opt.world_size > 1 and opt.early_stopping > 0:
            raise UserError(
                f"early_stopping is {opt.early_stopping} with world_size {opt.world_size}, but "
                "OpenNMT-py stops only its first rank, for which the others would wait for ever: "
                "set early_stopping to 0, or train on one GPU"
            )
        # What is wrong with the model comes before what is wrong with this machine.
        cls.update_model_opts(opt)
        cls.validate_model_opts(opt)
        lora.check_training(opt)
        if torch.cuda.device_count() < len(opt.gpu_ranks):
            raise UserError(
                f"gpu_ranks is {opt.gpu_ranks}, but {torch.cuda.device_count()} GPUs are visible "
                "here; leave it out to train on the CPU"
            )
        if opt.world_size > 1:
            # A worker could only end with a traceback.
            cls.validate_prepare_opts(copy.deepcopy(opt))

    parser_class._validate_data = classmethod(checked_validate_data)
    parser_class.validate_prepare_opts = classmethod(checked_validate_prepare_opts)
    parser_class.validate_train_opts = classmethod(checked_validate_train_opts)


def patch_translate(module: ModuleType) -> None:
    """Check what `onmt_translate` is to read and where it is to run and write."""
    original = module.translate

    @functools.wraps(original)
    def translate(opt: Namespace) -> None:
        check_features(opt)
        check_translation(opt)
        original(opt)

    module.translate = translate  # type: ignore[attr-defined]


def patch_translator(module: ModuleType) -> None:
    """Let a translation that fails leave the output file as it was."""
    original = module.build_translator

    @functools.wraps(original)
    def build_translator(
        opt: Namespace,
        device_id: int = 0,
        report_score: bool = True,
        logger: Any = None,
        out_file: Any = None,
    ) -> Any:
        check_models(opt)
        out_file = out_file or _OpenedWhenWritten(opt.output)
        try:
            return original(opt, device_id, report_score, logger, out_file)
        except AssertionError as error:  # of models that are no ensemble
            raise UserError(f"{', '.join(opt.models)}: {words_of(error)}") from error

    module.build_translator = build_translator  # type: ignore[attr-defined]


def check_translation(opt: Namespace) -> None:
    """Raise `UserError` for a source, a reference or an output that can't be used."""
    _require_folder("output", opt.output)
    corpora.require_transforms("transforms", opt.transforms)
    if "filtertoolong" in opt.transforms and opt.tgt is None:
        raise UserError(
            "transforms has filtertoolong, which looks at the target as well, expected tgt, or to "
            "do without it"
        )
    require_text(opt.src, "src")
    features = texts.with_features(opt.n_src_feats, opt.src_feats_defaults)
    counts = {opt.src: texts.count_lines("src", opt.src, features)}
    if opt.tgt is not None:
        require_text(opt.tgt, "tgt")
        counts[opt.tgt] = texts.count_lines("tgt", opt.tgt)
    corpora.require_as_many_lines("src and tgt", counts)
    for path in (*counts, *opt.models):
        if os.path.exists(opt.output) and os.path.samefile(path, opt.output):
            raise UserError(f"output is {opt.output}, which is read as well, expected another file")


def require_positions(opt: Namespace) -> None:
    """Raise `UserError` for a line to translate that is longer than a model's positions."""
    if opt.transforms:
        return  # they may make it shorter, or longer
    texts.count_lines("src", opt.src, texts.no_longer_than(texts.MOST_POSITIONS))
    if opt.tgt is not None:
        texts.count_lines("tgt", opt.tgt, texts.no_longer_than(texts.MOST_POSITIONS - 1))


def require_text(path: str | None, info: str) -> None:
    """Raise `UserError` unless `path` is a file with text in it; `info` is OpenNMT-py's name."""
    key = OPTION_OF_FILE.get(info, info)
    key = f"data.{key.replace('/', '.')}" if "/" in key else key
    if path is None:
        raise UserError(f"{key} is missing, expected a file")
    if not Path(path).exists():
        raise UserError(f"{key}: there is no file {path}")
    if not Path(path).is_file():
        raise UserError(f"{key}: {path} isn't a file, expected text")
    with open(path, "rb") as file:
        if not any(line.strip() for line in file):
            raise UserError(f"{key}: {path} is empty or blank, expected text")
    if key in OPTION_OF_FILE.values():
        texts.require_vocabulary(key, path)


class _OpenedWhenWritten:
    """The output of `onmt_translate`; until the first translation is there, nothing is touched."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Any = None

    def write(self, text: str) -> None:
        if self._file is None:
            self._file = open(self._path, "w", encoding="utf-8")  # noqa: SIM115
        with self._named():
            self._file.write(text)

    def flush(self) -> None:
        if self._file is not None:
            with self._named():
                self._file.flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """A full disk's error doesn't say which file."""
        try:
            yield
        except OSError as error:
            error.filename = error.filename or self._path
            raise


def _in_a_sentence(check: Callable[..., None]) -> Callable[..., None]:
    """OpenNMT-py's own checks fail with these two, some with line breaks in their texts."""

    @functools.wraps(check)
    def checked(*arguments: Any, **settings: Any) -> None:
        try:
            check(*arguments, **settings)
        except (AssertionError, ValueError) as error:
            raise UserError(words_of(error)) from error

    return checked


def words_of(error: Exception) -> str:
    """One line of what an error says; a bare assertion says nothing."""
    return " ".join(str(error).split()) or "the options don't fit together"


def _require_folder(option: str, path: str | None) -> None:
    if path is None:
        return
    if not Path(path).parent.is_dir():
        raise UserError(f"{option} is {path}, but there is no folder {Path(path).parent}")
    _require_writable(option, path, Path(path) if Path(path).exists() else Path(path).parent)


def _require_writable(option: str, path: str, place: Path) -> None:
    if not os.access(place, os.W_OK):
        raise UserError(f"{option} is {path}, but {place} can't be written to")


def _require_no_file_above(option: str, path: str) -> None:
    """OpenNMT-py makes the folders when it saves its first checkpoint."""
    above = next((folder for folder in Path(path).parents if folder.exists()), Path())
    if not above.is_dir():
        raise UserError(f"{option} is {path}, but {above} is a file, expected a folder")
    _require_writable(option, path, above)

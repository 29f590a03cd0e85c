"""What changes in each module that the start-up hook watches, once it is loaded."""

import argparse
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from onmt_define.embeddings.weightless import weightless
from onmt_define.errors import UserError, exit_on_user_error
from onmt_define.opennmt import (
    checkpoint_files,
    input_checks,
    lora,
    options,
    output_checks,
    ranks,
    safetensors_files,
    serving,
    stock_repairs,
    stopping,
    transform_checks,
    vocabulary_building,
)

OLDEST_TORCH = (2, 6)


def apply(module: ModuleType) -> None:
    """Patch one freshly loaded module."""
    if module.__name__.startswith("onmt.bin."):
        _patch_command(module)
    if module.__name__ in _PATCHES:
        _PATCHES[module.__name__](module)


def _patch_command(module: ModuleType) -> None:
    """A user's mistake ends a stock command with one sentence instead of a traceback."""
    original = module.main

    @functools.wraps(original)
    def main() -> None:
        with exit_on_user_error():
            _require_torch()
            try:
                original()
            except ImportError as error:  # of a package that only some transforms need
                raise UserError(str(error)) from error
            except OSError as error:
                if error.filename is not None or isinstance(error, BrokenPipeError):
                    raise
                raise UserError(str(error)) from error  # one of OpenNMT-py's own

    module.main = main  # type: ignore[attr-defined]


def _require_torch() -> None:
    """Older versions of torch can't load a checkpoint without running what is pickled in it."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST_TORCH:
        raise UserError(
            f"torch {torch.__version__} is installed, but onmt_define needs torch 2.6 or newer "
            "(pip install 'torch>=2.6')"
        )


def _patch_options(module: ModuleType) -> None:
    original = module.model_opts

    @functools.wraps(original)
    def model_opts(parser: argparse.ArgumentParser) -> None:
        original(parser)
        options.add_options(parser)

    module.model_opts = model_opts  # type: ignore[attr-defined]
    original_train_opts = module.train_opts

    @functools.wraps(original_train_opts)
    def train_opts(parser: argparse.ArgumentParser) -> None:
        original_train_opts(parser)
        options.add_training_options(parser)

    module.train_opts = train_opts  # type: ignore[attr-defined]


def _patch_parser(module: ModuleType) -> None:
    options.patch_parser(module.ArgumentParser)
    input_checks.patch_parser(module.ArgumentParser)


def _patch_data_iterator(module: ModuleType) -> None:
    from onmt_define.opennmt import data_iterator  # not before OpenNMT-py is loaded

    stopping.patch_data_iterator(module)
    data_iterator.patch(module)


def _patch_trainer(module: ModuleType) -> None:
    from onmt_define.opennmt import data_iterator  # not before OpenNMT-py is loaded

    stopping.patch_trainer(module)
    data_iterator.patch_trainer(module)


def _patch_translation(module: ModuleType) -> None:
    from onmt_define.opennmt import data_iterator  # not before OpenNMT-py is loaded

    data_iterator.patch_translations(module)


def _patch_embeddings(module: ModuleType) -> None:
    stock_repairs.patch_positions(module)
    original = module.skip_init

    @functools.wraps(original)
    def skip_init(*arguments: Any, **settings: Any) -> Any:
        with weightless():
            return original(*arguments, **settings)

    module.skip_init = skip_init  # type: ignore[attr-defined]


def _patch_model_builder(module: ModuleType) -> None:
    from onmt_define.opennmt import model_building  # needs OpenNMT-py, which is loaded by now

    model_building.patch(module)


def _patch_training(module: ModuleType) -> None:
    from onmt_define.opennmt.packed_training import support  # not before OpenNMT-py is loaded

    support.patch(module)


def _patch_model(module: ModuleType) -> None:
    stock_repairs.patch_loader(module)
    safetensors_files.patch_loader(module)


def _patch_model_saver(module: ModuleType) -> None:
    module.torch = checkpoint_files.TorchForCheckpoints()  # type: ignore[attr-defined]
    safetensors_files.patch_saver(module)
    original = module.load_checkpoint

    @functools.wraps(original)
    def load_checkpoint(ckpt_path: str) -> dict[str, Any]:
        checkpoint = original(ckpt_path)
        lora.require_whole(checkpoint, ckpt_path)
        return checkpoint

    module.load_checkpoint = load_checkpoint  # type: ignore[attr-defined]


def _patch_average_models(module: ModuleType) -> None:
    output_checks.patch_average_models(module)
    module.torch = stock_repairs.TorchForAveraging()  # type: ignore[attr-defined]
    original = module.average_models

    @functools.wraps(original)
    def average_models(model_files: list[str], *arguments: Any, **settings: Any) -> Any:
        stock_repairs.require_one_training(model_files)
        try:
            return original(model_files, *arguments, **settings)
        except (KeyError, RuntimeError, AttributeError) as error:
            raise UserError(
                f"{', '.join(map(str, model_files))} can't be averaged, expected checkpoints of "
                f"one training that hold the weights ({str(error).splitlines()[0]})"
            ) from error

    module.average_models = average_models  # type: ignore[attr-defined]


def _patch_release_model(module: ModuleType) -> None:
    output_checks.patch_release_model(module)
    module.torch = stock_repairs.TorchForRelease()  # type: ignore[attr-defined]


def _patch_translate(module: ModuleType) -> None:
    input_checks.patch_translate(module)
    stock_repairs.patch_translate(module)


def _patch_translator(module: ModuleType) -> None:
    input_checks.patch_translator(module)
    stock_repairs.patch_translator(module)


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "onmt.opts": _patch_options,
    "onmt.utils.parse": _patch_parser,
    "onmt.transforms": transform_checks.patch_transforms,
    "onmt.inference_engine": stock_repairs.patch_inference_engine,
    "onmt.inputters.dynamic_iterator": _patch_data_iterator,
    "onmt.model_builder": _patch_model_builder,
    "onmt.train_single": _patch_training,
    "onmt.models.model": _patch_model,
    "onmt.models.model_saver": _patch_model_saver,
    "onmt.trainer": _patch_trainer,
    "onmt.bin.train": ranks.patch_train,
    "onmt.modules.embeddings": _patch_embeddings,
    "onmt.translate.translation": _patch_translation,
    "onmt.translate.translation_server": serving.patch_server,
    "onmt.bin.average_models": _patch_average_models,
    "onmt.bin.build_vocab": vocabulary_building.patch,
    "onmt.bin.translate": _patch_translate,
    "onmt.translate.translator": _patch_translator,
    "onmt.bin.server": serving.patch_command,
    "onmt.bin.release_model": _patch_release_model,
}

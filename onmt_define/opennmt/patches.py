"""What changes in each OpenNMT-py module once it is loaded: one function a module."""

import argparse
import functools
from types import ModuleType

import torch

from onmt_define.errors import UserError, exit_on_user_error
from onmt_define.opennmt import model_building, options

OLDEST_TORCH = (2, 6)


def apply(module: ModuleType) -> None:
    """Patch one freshly loaded OpenNMT-py module."""
    if module.__name__.startswith("onmt.bin."):
        _patch_command(module)
    else:
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
            except FileNotFoundError as error:
                raise UserError(f"there is no file {error.filename}") from error

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


def _patch_parser(module: ModuleType) -> None:
    options.patch_parser(module.ArgumentParser)


def _patch_model_builder(module: ModuleType) -> None:
    model_building.patch(module)


def _patch_model_saver(module: ModuleType) -> None:
    # What a checkpoint of OpenNMT-py 3.x holds beside tensors and plain containers. Any other
    # pickled object is still refused by torch's weights_only loading.
    if hasattr(torch.serialization, "add_safe_globals"):  # else the command itself refuses to start
        torch.serialization.add_safe_globals([argparse.Namespace])


_PATCHES = {
    "onmt.opts": _patch_options,
    "onmt.utils.parse": _patch_parser,
    "onmt.model_builder": _patch_model_builder,
    "onmt.models.model_saver": _patch_model_saver,
}

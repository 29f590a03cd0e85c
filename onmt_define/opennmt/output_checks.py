"""Where `onmt_average_models` and `onmt_release_model` are to write, looked at before they read."""

import argparse
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from onmt_define.errors import UserError
from onmt_define.files import require_other_file


def patch_average_models(module: ModuleType) -> None:
    """Check the options of `onmt.bin.average_models`."""
    _check_after_parsing(module, lambda opt: require_other_file(Path(opt.output), *opt.models))


def patch_release_model(module: ModuleType) -> None:
    """Check the options of `onmt.bin.release_model`."""
    _check_after_parsing(module, check_release)


def check_release(opt: Namespace) -> None:
    """Raise `UserError` for a quantization that isn't done or an output that isn't replaceable."""
    output = Path(opt.output)
    if opt.format == "pytorch":
        if opt.quantization is not None:
            raise UserError(f"quantization is {opt.quantization}, which needs format ctranslate2")
        require_other_file(output, opt.model)
    elif output.exists() and not output.is_dir():
        raise UserError(f"output is the file {output}, but a model of CTranslate2 is a folder")
    elif output.is_dir() and any(output.iterdir()) and not (output / "model.bin").exists():
        # The converter deletes a folder that is there already.
        raise UserError(
            f"output is {output}, a folder that holds something else than a model of CTranslate2, "
            "expected a new one"
        )


def _check_after_parsing(module: ModuleType, check: Callable[[Namespace], None]) -> None:
    class Parser(argparse.ArgumentParser):
        def parse_args(self, *arguments: Any, **settings: Any) -> Any:
            opt = super().parse_args(*arguments, **settings)
            check(opt)
            return opt

    module.argparse = SimpleNamespace(ArgumentParser=Parser)  # type: ignore[attr-defined]

"""Mends `save_format: safetensors` of OpenNMT-py 3.5.1.

It can't load the file that it writes, because it looks for numbered parts, and it can't write
tied parameters, because safetensors refuses tensors that share memory.
"""

import contextlib
import functools
import os
from glob import glob
from pathlib import Path
from types import ModuleType
from typing import Any

from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files, lora


def patch_loader(module: ModuleType) -> None:
    """Let `onmt.models.model` find `X.safetensors` where there are no parts `X.*.safetensors`."""
    module.glob = find_files  # type: ignore[attr-defined]
    original = module.BaseModel.load_safe_state_dict

    @functools.wraps(original)
    def load_safe_state_dict(self: Any, path: str, *arguments: Any, **settings: Any) -> None:
        errors: tuple[type[Exception], ...] = (ValueError,)
        with contextlib.suppress(ImportError):
            from safetensors import SafetensorError

            errors += (SafetensorError,)
        try:
            original(self, path, *arguments, **settings)
        except errors as error:
            raise UserError(f"{path}.safetensors can't be used: {error}") from error

    module.BaseModel.load_safe_state_dict = load_safe_state_dict


def find_files(pattern: str) -> list[str]:
    """The numbered parts of a model, or else its one file."""
    whole = pattern.removesuffix(".*.safetensors") + ".safetensors"
    return glob(pattern) or ([whole] if os.path.exists(whole) else [])


def size_in_bytes(path: str | Path) -> int:
    """Of a checkpoint with its weights, wherever they lie."""
    weights = find_files(f"{Path(path).with_suffix('')}.*.safetensors")
    return sum(Path(file).stat().st_size for file in (path, *weights))


def patch_saver(module: ModuleType) -> None:
    """Let `onmt.models.model_saver` write a tied parameter once for each of its names."""
    original = module.ModelSaver._st_save

    @functools.wraps(original)
    def _st_save(self: Any, step: int, model: Any) -> tuple[str, str]:
        return original(self, step, _WithCopiedState(model))

    module.ModelSaver._st_save = _st_save


class _WithCopiedState:
    """A model for saving alone: every tensor of its state has memory of its own."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def state_dict(self) -> dict[str, Any]:
        return {name: value.clone() for name, value in self._model.state_dict().items()}


def load_whole(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint with all its weights, wherever they lie.

    Raises:
        UserError: see `checkpoint_files.load`; or the file holds no whole model.
    """
    return with_weights(checkpoint_files.load(path), Path(path))


def with_weights(checkpoint: dict[str, Any], path: Path) -> dict[str, Any]:
    """Add the weights that `save_format: safetensors` left in another file.

    Raises:
        UserError: if there is no whole model in either.
    """
    lora.require_whole(checkpoint, path)
    if "model" not in checkpoint:
        checkpoint.update(read_weights(path))
    return checkpoint


def read_weights(checkpoint: Path) -> dict[str, dict[str, Any]]:
    """The entries `model` and `generator` of a checkpoint whose weights lie in another file.

    Raises:
        UserError: if that file isn't there or safetensors isn't installed.
    """
    files = find_files(f"{checkpoint.with_suffix('')}.*.safetensors")
    if not files:
        raise UserError(
            f"{checkpoint} holds no weights, and there is no {checkpoint.stem}.safetensors"
        )
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise UserError(
            f"{files[0]} can't be read without safetensors (pip install safetensors)"
        ) from None
    weights = {}
    for file in files:
        try:
            weights |= load_file(file)
        except SafetensorError as error:
            raise UserError(
                f"{file} is damaged or cut short ({error}), expected whole weights"
            ) from None
    generator = {
        name.removeprefix("generator."): weights.pop(name)
        for name in list(weights)
        if name.startswith("generator.")
    }
    return {"model": weights, "generator": generator}

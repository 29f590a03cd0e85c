"""What changes in CTranslate2's converter of OpenNMT-py models.

CTranslate2 imports its converters whenever it is imported, so nothing heavy is imported here
before a conversion starts.
"""

import functools
from types import ModuleType
from typing import Any

from onmt_define.errors import UserError, exit_on_user_error


def apply(module: ModuleType) -> None:
    """Let the converter read checkpoints safely and say what to do with one that isn't plain."""
    load, main = module.OpenNMTPyConverter._load, module.main

    @functools.wraps(load)
    def _load(self: Any) -> Any:
        if not self._unsafe_deserialization:
            _require_plain(self._model_path)
        return load(self)

    @functools.wraps(main)
    def main_with_sentences() -> None:
        with exit_on_user_error():
            main()

    module.OpenNMTPyConverter._load = _load
    module.main = main_with_sentences  # type: ignore[attr-defined]


def _require_plain(path: str) -> None:
    from onmt_define.opennmt import checkpoint_files  # also lets torch read a checkpoint's options

    embedding_type = checkpoint_files.embedding_type(checkpoint_files.load(path))
    if embedding_type != checkpoint_files.STANDARD:
        raise UserError(
            f"{path} has embedding_type {embedding_type}, which CTranslate2 doesn't know: "
            f"fold it first (onmt_define fold {path} -o plain.pt)"
        )

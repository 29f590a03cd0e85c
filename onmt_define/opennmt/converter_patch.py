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
    check_opt = module.check_opt

    @functools.wraps(load)
    def _load(self: Any) -> Any:
        if not self._unsafe_deserialization:
            _require_plain(self._model_path)
        try:
            return load(self)
        except ValueError as error:
            reasons = " ".join(str(error).split())
            raise UserError(f"{self._model_path} can't be converted: {reasons}") from error

    @functools.wraps(check_opt)
    def check_equal_opt(opt: Any, *arguments: Any, **settings: Any) -> Any:
        if getattr(opt, "self_attn_type", None) == "scaled-dot-flash":
            opt.self_attn_type = "scaled-dot"  # which it computes, on other kernels
        return check_opt(opt, *arguments, **settings)

    @functools.wraps(main)
    def main_with_sentences() -> None:
        with exit_on_user_error():
            main()

    module.OpenNMTPyConverter._load = _load
    module.check_opt = check_equal_opt  # type: ignore[attr-defined]
    module.main = main_with_sentences  # type: ignore[attr-defined]


def _require_plain(path: str) -> None:
    from onmt_define.opennmt import checkpoint_files  # also lets torch read a checkpoint's options

    checkpoint = checkpoint_files.load(path)
    embedding_type = checkpoint_files.embedding_type(checkpoint)
    if "model" not in checkpoint:
        raise UserError(
            f"{path} has its weights in another file (save_format safetensors), which CTranslate2 "
            f"doesn't read: put them into one (onmt_average_models -models {path} -output one.pt)"
        )
    if embedding_type != checkpoint_files.STANDARD:
        raise UserError(
            f"{path} has embedding_type {embedding_type}, which CTranslate2 doesn't know: "
            f"fold it first (onmt_define fold {path} -o plain.pt)"
        )

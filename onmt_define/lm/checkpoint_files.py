"""The checkpoints that a language model's training leaves, read without Lightning."""

import errno
import os
from pathlib import Path
from typing import Any

import torch

from onmt_define.checkpoint_folder import CheckpointFolder
from onmt_define.errors import UserError


def lm_checkpoints(folder: Path) -> CheckpointFolder:
    """The checkpoints of a language model's training.

    Of a checkpoint of gigabytes mostly the settings are asked for: weights stay on the disk until
    one looks at them.
    """

    def read(path: Path) -> dict[str, Any]:
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:  # torch.load has no closed list of what it raises
            if isinstance(error, MemoryError) or "allocate memory" in str(error):
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), str(path)) from error
            raise UserError(f"{path} can't be read: {error}") from error

    return CheckpointFolder(folder, r"step-(\d+)\.ckpt", read)

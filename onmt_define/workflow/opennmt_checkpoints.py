"""The checkpoints that an OpenNMT-py training leaves, each with all that going on from it needs."""

from pathlib import Path
from typing import Any

from onmt_define.checkpoint_folder import CheckpointFolder
from onmt_define.errors import UserError


def opennmt_checkpoints(folder: Path) -> CheckpointFolder:
    """The checkpoints in a run's folder `checkpoints`."""

    def read(path: Path) -> dict[str, Any]:
        from onmt_define.opennmt import checkpoint_files  # torch, which names and steps don't need

        checkpoint = checkpoint_files.load(path)
        if not {"model", "optim"} <= checkpoint.keys():
            raise UserError(f"{path} lacks the weights or the optimizer's state")
        return checkpoint

    return CheckpointFolder(folder, r"checkpoint_step_(\d+)\.pt", read)

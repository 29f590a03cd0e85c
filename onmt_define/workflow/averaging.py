"""The average of a training's last checkpoints."""

from pathlib import Path

import onmt_define.opennmt.startup  # noqa: F401  before OpenNMT-py, also outside site-packages
from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files
from onmt_define.workflow.opennmt_checkpoints import opennmt_checkpoints


def average_checkpoints(folder: str | Path, output: str | Path, number: int) -> list[int]:
    """Write the mean of the newest `number` checkpoints of `folder`; return their steps.

    Raises:
        UserError: if there are fewer, or one can't be read.
    """
    newest = opennmt_checkpoints(Path(folder)).by_step()[:number]
    if len(newest) < number:
        raise UserError(
            f"{folder} has {len(newest)} checkpoints, but {number} are to be averaged; train again "
            f"with keep_checkpoint at least {number}"
        )
    from onmt.bin.average_models import average_models

    checkpoint_files.save(average_models([path for _, path in newest], fp32=True), Path(output))
    return [step for step, _ in newest]

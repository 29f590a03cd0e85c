"""The average of a training's last checkpoints, made by OpenNMT-py's own command."""

import subprocess
import sys
from pathlib import Path

from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.workflow.training import opennmt_checkpoints


def average_checkpoints(folder: str | Path, output: str | Path, number: int) -> list[int]:
    """Write the average of the newest `number` checkpoints of `folder`; return their steps.

    Raises:
        UserError: if there are fewer, or onmt_average_models fails.
    """
    newest = opennmt_checkpoints(Path(folder)).by_step()[:number]
    if len(newest) < number:
        raise UserError(
            f"{folder} has {len(newest)} checkpoints, but {number} are to be averaged; train again "
            f"with keep_checkpoint at least {number}"
        )
    with complete_or_absent(output) as part:
        command = [sys.executable, "-m", "onmt_define.opennmt", "average_models", "-fp32"]
        command += ["-models", *(str(path) for _, path in newest), "-output", str(part)]
        if status := subprocess.run(command).returncode:
            raise UserError(f"onmt_average_models on {folder} ended with status {status}")
    return [step for step, _ in newest]

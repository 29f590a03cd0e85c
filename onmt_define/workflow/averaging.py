"""The average of a training's last checkpoints.

Not by `onmt_average_models`: it works in place, and so divides a tensor that classifier and table
share twice.
"""

from pathlib import Path

from torch import Tensor

from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files
from onmt_define.workflow.training import opennmt_checkpoints

PARTS = ("model", "generator")


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
    sums: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
    for _, path in reversed(newest):
        content = checkpoint_files.load(path)
        for part in PARTS:
            for name, weight in content[part].items():
                before = sums[part].get(name, 0)
                # Counters and the like stay those of the newest.
                sums[part][name] = weight.float() + before if weight.is_floating_point() else weight
    averaged = {
        part: {
            name: weight / number if weight.is_floating_point() else weight
            for name, weight in weights.items()
        }
        for part, weights in sums.items()
    }
    checkpoint_files.save({**content, **averaged, "optim": None}, Path(output))
    return [step for step, _ in newest]

"""A training that has gone wrong ends with the step at which it did."""

import math
from pathlib import Path

import torch
from torch import Tensor

from onmt_define.errors import UserError
from onmt_define.lm.checkpoint_files import lm_checkpoints

# Steps that a GPU may run ahead; looking at every loss would make it wait in every step.
GPU_STEPS_BETWEEN_LOOKS = 100
# A model that gives every token type the same probability has a loss of log V.
EXPLODED = 10.0


class LossWatch:
    """Stops a training whose loss is no number, or far above that of guessing.

    Args:
        run: name of the run, for the sentence.
        vocabulary_size: V.
        folder: the checkpoints; none of them is written after a loss that is wrong.
    """

    def __init__(self, run: str, vocabulary_size: int, folder: Path) -> None:
        self.run = run
        self.limit = EXPLODED * math.log(vocabulary_size)
        self.folder = folder
        self.pending: list[tuple[int, Tensor]] = []

    def add(self, step: int, loss: Tensor) -> None:
        """Take note of a step's mean loss, a tensor of one number without gradient."""
        self.pending.append((step, loss))
        if loss.device.type == "cpu" or len(self.pending) >= GPU_STEPS_BETWEEN_LOOKS:
            self.check()

    def check(self) -> None:
        """Look at all losses since the last look.

        Raises:
            UserError: naming the first step with a wrong loss and the last good checkpoint.
        """
        if not self.pending:
            return
        values = torch.stack([loss for _, loss in self.pending]).tolist()
        steps = [step for step, _ in self.pending]
        self.pending.clear()
        for step, value in zip(steps, values, strict=True):
            if not math.isfinite(value):
                self._stop(f"the loss is {value} at step {step:,}, expected a finite number")
            if value > self.limit:
                self._stop(
                    f"the loss is {value:.1f} at step {step:,}, expected at most {self.limit:.1f}, "
                    f"{EXPLODED:.0f} times that of guessing"
                )

    def check_weights(self, step: int, parameters: list[Tensor]) -> None:
        """Raise `UserError` for weights that are no numbers; the next loss would be none either."""
        if not torch.stack([parameter.isfinite().all() for parameter in parameters]).all():
            self._stop(f"a weight is no finite number after step {step:,}")

    def _stop(self, problem: str) -> None:
        newest = [path for _, path in lm_checkpoints(self.folder).by_step()[:1]]
        good = (
            f"the last good checkpoint is {newest[0]}" if newest else "there is no checkpoint yet"
        )
        raise UserError(
            f"run {self.run}: {problem}; {good}; lower learning_rate or gradient_clip and start "
            "anew in another folder"
        )

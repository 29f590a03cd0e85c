"""Checkpoints: when they are written, also on a signal to stop."""

import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import Checkpoint

from onmt_define.files import complete_or_absent
from onmt_define.lm.checkpoint_files import lm_checkpoints
from onmt_define.lm.reporting import report
from onmt_define.stop_signals import StopRequest

KEPT_CHECKPOINTS = 2
# Several processes agree on stopping only now and then, since they have to wait for each other.
STEPS_BETWEEN_AGREEMENTS = 10


class SaveCheckpoints(Checkpoint):
    """Write a checkpoint every so many steps, after each epoch, and when asked to stop.

    SIGTERM and SIGUSR1 let the step end, save, and leave with status 128 + the signal's number.
    """

    def __init__(self, folder: Path, save_every: int) -> None:
        self.folder = folder
        self.save_every = save_every
        self.request = StopRequest()

    def on_train_start(self, *_: Any) -> None:
        """Take over the signals; Lightning's own handler leaves with status 0 and saves nothing."""
        self.request.listen()

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Save if due; the last step of an epoch is saved after its validation."""
        if trainer.is_last_batch:
            return
        if self._must_stop(trainer):
            self._save(trainer)
            number = self.request.signal or signal.SIGTERM
            report(
                f"stopped by {signal.Signals(number).name} after step {trainer.global_step:,}; "
                "the same command goes on from there"
            )
            raise SystemExit(128 + number)
        if trainer.global_step % self.save_every == 0:
            self._save(trainer)

    def on_train_epoch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Save the end of an epoch."""
        self._save(trainer)

    def _must_stop(self, trainer: lightning.Trainer) -> bool:
        asked = self.request.signal is not None
        if trainer.world_size == 1:
            return asked
        if trainer.global_step % STEPS_BETWEEN_AGREEMENTS:
            return False
        return trainer.strategy.reduce_boolean_decision(asked, all=False)

    def _save(self, trainer: lightning.Trainer) -> None:
        path = self.folder / f"step-{trainer.global_step:09}.ckpt"
        # All processes gather what is to be saved, the first one writes it.
        writing = complete_or_absent(path) if trainer.is_global_zero else nullcontext(path)
        with writing as temporary:
            trainer.save_checkpoint(temporary, weights_only=False)
        if trainer.is_global_zero:
            lm_checkpoints(self.folder).prune(KEPT_CHECKPOINTS)

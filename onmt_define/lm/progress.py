"""What a training shows while it runs, and the learning curve that it leaves behind."""

import math
import time
from typing import Any

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from onmt_define.lm.reporting import report
from onmt_define.progress_line import SECONDS_BETWEEN_LINES, progress_line

CURVE_POINTS = 100


class Progress(Callback):
    """One plain line every ten seconds, the learning curve, and the seconds spent.

    Args:
        run: name of the run.
        total_steps: steps of the whole training.
        processes: how many read as many tokens as this one does.
    """

    def __init__(self, run: str, total_steps: int, processes: int = 1) -> None:
        self.run = run
        self.total_steps = total_steps
        self.processes = processes
        self.curve: list[dict[str, float]] = []
        self.seconds = 0.0
        self.line = _Window()
        self.point = _Window()
        self.mark = time.monotonic()

    def on_train_start(self, *_: Any) -> None:
        """Start the clock."""
        self.mark = time.monotonic()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        outputs: dict[str, Any],
        *_: Any,
    ) -> None:
        """Count a step; write the line and the point of the curve that are due."""
        self.seconds += (elapsed := self._elapsed())
        step = trainer.global_step
        for window in (self.line, self.point):
            window.add(outputs["value"], outputs["tokens"] * self.processes, elapsed)
        if step % math.ceil(self.total_steps / CURVE_POINTS) == 0 or step == self.total_steps:
            self._extend_curve(trainer, step, outputs["learning_rate"])
        if self.line.seconds >= SECONDS_BETWEEN_LINES or step == self.total_steps:
            report(self._describe(step))
            self.line = _Window()

    def on_train_epoch_end(self, *_: Any) -> None:
        """Wait for what a GPU has yet to do, then leave out of the speed what comes in between."""
        float(self.point.loss)
        self.seconds += (elapsed := self._elapsed())
        for window in (self.line, self.point):
            window.seconds += elapsed

    def on_train_epoch_start(self, *_: Any) -> None:
        """Count the validation among the seconds, not in the speed."""
        self.seconds += self._elapsed()

    def on_train_end(self, *_: Any) -> None:
        """Count the last validation among the seconds."""
        self.seconds += self._elapsed()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        point = {**vars(self.point), "loss": float(self.point.loss)}
        return {"curve": self.curve, "seconds": self.seconds, "point": point}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.curve, self.seconds = state_dict["curve"], state_dict["seconds"]
        vars(self.point).update(state_dict["point"])

    def _elapsed(self) -> float:
        before, self.mark = self.mark, time.monotonic()
        return self.mark - before

    def _extend_curve(self, trainer: lightning.Trainer, step: int, learning_rate: float) -> None:
        point = {
            "step": step,
            "train_perplexity": round(self.point.perplexity, 4),
            "learning_rate": learning_rate,
            "tokens_per_second": round(self.point.tokens_per_second, 1),
        }
        self.curve.append(point)
        for logger in trainer.loggers:
            logger.log_metrics({key: point[key] for key in point if key != "step"}, step)
        self.point = _Window()

    def _describe(self, step: int) -> str:
        return progress_line(
            self.run,
            step,
            self.total_steps,
            tokens_per_second=self.line.tokens_per_second,
            perplexity=self.line.perplexity,
            seconds_left=(self.total_steps - step) * self.line.seconds / self.line.steps,
        )


class _Window:
    """Loss and speed of the steps since the last line or point.

    The losses are added up where they are; to ask a GPU for one is to wait until it has caught up.
    """

    def __init__(self) -> None:
        self.steps, self.tokens, self.seconds = 0, 0, 0.0
        self.loss: Tensor | float = 0.0

    def add(self, loss: Tensor, tokens: int, seconds: float) -> None:
        self.steps += 1
        self.tokens += tokens
        self.loss = self.loss + loss * tokens
        self.seconds += seconds

    @property
    def perplexity(self) -> float:
        return math.exp(min(float(self.loss) / self.tokens, 700.0))

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(self.seconds, 1e-9)

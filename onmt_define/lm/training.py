"""Training of a language model by truncated back-propagation through time, driven by Lightning.

The training text is one stream, cut into `batch_size` contiguous ones that are read side by side,
`bptt` tokens a step, the state carried from step to step. A checkpoint holds all that the next step
depends on, the recurrent state and the random numbers too, so that a training that was stopped
and started again ends with the same weights as one that was not.
"""

import logging
import math
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.plugins.environments import LightningEnvironment
from torch import Tensor

from onmt_define.checkpoint_folder import CheckpointFolder
from onmt_define.environment import describe_device, versions
from onmt_define.errors import UserError
from onmt_define.files import complete_or_absent
from onmt_define.gpu_use import sampled, summarise
from onmt_define.lm.data import EOS, SPLITS, Corpus, prepare_corpus
from onmt_define.lm.embeddings import describe_input_layer
from onmt_define.lm.evaluation import perplexity, save_model, write_record
from onmt_define.lm.lstm import LanguageModel, build_model, count_parameters
from onmt_define.progress_line import SECONDS_BETWEEN_LINES, progress_line
from onmt_define.run_folder import only_writer
from onmt_define.stop_signals import StopRequest

logger = logging.getLogger(__name__)

VALIDATION_BATCH_SIZE = 10
KEPT_CHECKPOINTS = 2
CURVE_POINTS = 100
CHANGEABLE_SETTINGS = {"epochs", "save_every", *SPLITS}
"""Settings that may change before going on from a checkpoint; texts are compared by content."""


def report(line: str) -> None:
    """Show a line to whoever watches, and keep it in the log."""
    print(line, file=sys.stderr, flush=True)
    logger.info(line)


def send_lightning_to_log() -> None:
    """Leave Lightning's messages to the root logger; by itself it prints them on the terminal."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        lightning_logger = logging.getLogger(name)
        lightning_logger.handlers.clear()
        lightning_logger.propagate = True


class BpttBatches:
    """One epoch's batches, in order: (inputs, targets, whether the state starts anew).

    Inputs and targets are int64 (time, batch), targets one token further on. The last batch of an
    epoch may be shorter; tokens that don't fill all streams (fewer than `batch_size`) are left out.
    `state_dict` and `load_state_dict` let Lightning go on in the middle of an epoch.
    """

    def __init__(self, ids: np.ndarray, batch_size: int, bptt: int) -> None:
        length = len(ids) // batch_size
        if length < 2:
            raise UserError(
                f"batch_size is {batch_size}, expected at most {len(ids) // 2}, half the "
                f"{len(ids)} tokens of the training text"
            )
        self.streams = ids[: batch_size * length].reshape(batch_size, length)
        self.bptt = bptt
        self.position = 0

    def __len__(self) -> int:
        return math.ceil((self.streams.shape[1] - 1) / self.bptt)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, bool]]:
        first, self.position = self.position, 0
        for index in range(first, len(self)):
            start = index * self.bptt
            window = self.streams[:, start : start + self.bptt + 1].T.astype(np.int64)
            tokens = torch.from_numpy(window)
            self.position = (index + 1) % len(self)
            yield tokens[:-1], tokens[1:], index == 0

    def state_dict(self) -> dict[str, int]:
        """Where in the epoch the next batch is."""
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next epoch begin at a saved place."""
        self.position = state["position"]


class LanguageModelTraining(lightning.LightningModule):
    """What one step, one epoch and one checkpoint of a training consist of."""

    def __init__(self, model: LanguageModel, settings: dict[str, Any], corpus: Corpus) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.corpus = corpus
        self.state: Any = None
        self.validation: list[dict[str, float]] = []

    def training_step(self, batch: tuple[Tensor, Tensor, bool]) -> dict[str, Any]:
        """Mean loss of a batch; a loss that is no number ends the training."""
        inputs, targets, starts_anew = batch
        state = None if starts_anew else self.state
        losses, state = self.model(inputs, targets, state)
        self.state = [tuple(part.detach() for part in layer) for layer in state]
        loss = losses.mean()
        value = loss.item()
        if not math.isfinite(value):
            raise UserError(
                f"run {self.settings['run']}: the loss is {value} at step {self.global_step + 1}, "
                "expected a finite number; lower learning_rate or gradient_clip and start anew"
            )
        return {
            "loss": loss,
            "value": value,
            "tokens": targets.numel(),
            "learning_rate": self.trainer.optimizers[0].param_groups[0]["lr"],
        }

    def configure_optimizers(self) -> dict[str, Any]:
        """SGD or Adam, the learning rate multiplied by `decay_factor` at each late epoch."""
        optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
        optimizer = optimizers[self.settings["optimizer"]](
            self.model.parameters(), lr=self.settings["learning_rate"]
        )
        start = self.settings["decay_epoch"] or math.inf
        factor = self.settings["decay_factor"]
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda epoch: factor ** max(0, epoch - start + 1)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler}}

    def on_train_epoch_end(self) -> None:
        """Score the validation text."""
        value = split_perplexity(self.model, self.corpus, "valid", VALIDATION_BATCH_SIZE)
        epoch = self.current_epoch + 1
        self.validation.append({"step": self.global_step, "epoch": epoch, "perplexity": value})
        self.logger.log_metrics({"valid_perplexity": value}, self.global_step)
        report(
            f"[{self.settings['run']}] epoch {epoch}/{self.settings['epochs']}, "
            f"valid perplexity {value:.2f}"
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what Lightning doesn't know of."""
        checkpoint["language_model"] = {
            "settings": self.settings,
            "checksums": self.corpus.checksums,
            "validation": self.validation,
            "state": self.state,
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state() if self.device.type == "cuda" else None,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `on_save_checkpoint` added."""
        saved = checkpoint["language_model"]
        self.validation = saved["validation"]
        self.state = [tuple(part.to(self.device) for part in layer) for layer in saved["state"]]
        torch.set_rng_state(saved["random"].cpu())
        if saved["random_cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(saved["random_cuda"].cpu())


class Progress(Callback):
    """One plain line every ten seconds, the learning curve, and the seconds spent."""

    def __init__(self, run: str, total_steps: int) -> None:
        self.run = run
        self.total_steps = total_steps
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
        module: LanguageModelTraining,
        outputs: dict[str, Any],
        *_: Any,
    ) -> None:
        """Count a step; write the line and the point of the curve that are due."""
        self.seconds += (elapsed := self._elapsed())
        step = trainer.global_step
        for window in (self.line, self.point):
            window.add(outputs["value"], outputs["tokens"], elapsed)
        if step % math.ceil(self.total_steps / CURVE_POINTS) == 0 or step == self.total_steps:
            self._extend_curve(trainer, step, outputs["learning_rate"])
        if self.line.seconds >= SECONDS_BETWEEN_LINES or step == self.total_steps:
            report(self._describe(step))
            self.line = _Window()

    def on_train_epoch_end(self, *_: Any) -> None:
        """Leave out of the speed what comes between epochs."""
        self._elapsed()

    def on_train_epoch_start(self, *_: Any) -> None:
        """Count the validation among the seconds, not in the speed."""
        self.seconds += self._elapsed()

    def on_train_end(self, *_: Any) -> None:
        """Count the last validation among the seconds."""
        self.seconds += self._elapsed()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"curve": self.curve, "seconds": self.seconds, "point": vars(self.point)}

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
        trainer.logger.log_metrics({key: point[key] for key in point if key != "step"}, step)
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
    """Loss and speed of the steps since the last line or point."""

    def __init__(self) -> None:
        self.steps, self.tokens, self.loss, self.seconds = 0, 0, 0.0, 0.0

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        self.steps += 1
        self.tokens += tokens
        self.loss += loss * tokens
        self.seconds += seconds

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss / self.tokens, 700.0))

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(self.seconds, 1e-9)


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
        if self.request.signal is not None:
            self._save(trainer)
            name = signal.Signals(self.request.signal).name
            report(
                f"stopped by {name} after step {trainer.global_step:,}; "
                "the same command goes on from there"
            )
            raise SystemExit(128 + self.request.signal)
        if trainer.global_step % self.save_every == 0:
            self._save(trainer)

    def on_train_epoch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        """Save the end of an epoch."""
        self._save(trainer)

    def _save(self, trainer: lightning.Trainer) -> None:
        with complete_or_absent(self.folder / f"step-{trainer.global_step:09}.ckpt") as temporary:
            trainer.save_checkpoint(temporary, weights_only=False)
        lm_checkpoints(self.folder).prune(KEPT_CHECKPOINTS)


def lm_checkpoints(folder: Path) -> CheckpointFolder:
    """The checkpoints of a language model's training."""

    def read(path: Path) -> dict[str, Any]:
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch.load has no closed list of what it raises
            raise UserError(f"{path} can't be read: {error}") from error

    return CheckpointFolder(folder, r"step-(\d+)\.ckpt", read)


def check_same_run(
    path: Path, saved: dict[str, Any], settings: dict[str, Any], corpus: Corpus
) -> None:
    """Raise `UserError` if a checkpoint was made with other settings or texts."""
    for key in settings.keys() - CHANGEABLE_SETTINGS:
        if settings[key] != saved["settings"].get(key):
            raise UserError(
                f"{path} was made with {key}: {saved['settings'].get(key)}, but the run says "
                f"{settings[key]}; expected the same, or another output folder"
            )
    for split in SPLITS:
        if corpus.checksums[split] != saved["checksums"][split]:
            raise UserError(
                f"{path} was made with another {split} text than {settings[split]}; expected the "
                "same text, or another output folder"
            )


def split_perplexity(
    model: LanguageModel, corpus: Corpus, split: str, batch_size: int = 1
) -> float:
    """Perplexity of a split of a corpus.

    Raises:
        UserError: it is not finite.
    """
    value = perplexity(model, corpus.ids[split], corpus.vocabulary.ids[EOS], batch_size)
    if not math.isfinite(value):
        raise UserError(
            f"the perplexity of the {split} text is {value}, expected a finite number; lower "
            "learning_rate or gradient_clip and start anew"
        )
    return value


def train(
    settings: dict[str, Any],
    output: str | Path,
    gpus: int = 0,
    threads: int = 1,
    gpu_log: Path | None = None,
) -> None:
    """Train the model of one resolved run, or go on with it, and write its record.

    Writes `output`/data, `output`/checkpoints, `output`/metrics (CSV, one folder a try), and last
    `output`/model.pt and `output`/record.json.

    Args:
        settings: content of a run file, checked and complete (`onmt_define.lm.commands.read_run`).
        output: folder of this run alone.
        gpus: 0 for the CPU, or 1.
        threads: threads of torch on the CPU.
        gpu_log: table to which the use of the GPU is appended; none without a GPU.

    Raises:
        UserError: texts, sizes or checkpoints that don't fit; a loss that is no number; another
            training in the same folder.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    send_lightning_to_log()
    torch.set_num_threads(threads)
    torch.manual_seed(settings["seed"])
    with only_writer(output):
        _train(settings, output, gpus, describe_device(gpus, threads), gpu_log)


def _train(
    settings: dict[str, Any], output: Path, gpus: int, device: str, gpu_log: Path | None
) -> None:
    corpus = prepare_corpus(
        {split: settings[split] for split in SPLITS},
        output / "data",
        settings["min_count"],
        settings["vocabulary_size"],
    )
    batches = BpttBatches(corpus.ids["train"], settings["batch_size"], settings["bptt"])
    model = build_model(settings, len(corpus.vocabulary))
    module = LanguageModelTraining(model, settings, corpus)
    progress = Progress(settings["run"], settings["epochs"] * len(batches))

    path, first_step = _checkpoint_to_go_on_from(output / "checkpoints", settings, corpus)
    trainer = lightning.Trainer(
        accelerator="gpu" if gpus else "cpu",
        devices=1,
        max_epochs=settings["epochs"],
        gradient_clip_val=settings["gradient_clip"] or None,
        limit_val_batches=0,
        callbacks=[progress, SaveCheckpoints(output / "checkpoints", settings["save_every"])],
        logger=CSVLogger(output, "metrics", f"from-step-{first_step}", flush_logs_every_n_steps=1),
        # Else Lightning would look for, and requeue, a job of SLURM.
        plugins=[LightningEnvironment()],
        default_root_dir=output,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with sampled(gpu_log if gpus else None, anew=first_step == 0):
        trainer.fit(module, batches, ckpt_path=path, weights_only=True)

    model.to("cuda" if gpus else "cpu")  # Lightning leaves it on the CPU.
    perplexities = {split: split_perplexity(model, corpus, split) for split in ("valid", "test")}
    report(
        f"[{settings['run']}] valid perplexity {perplexities['valid']:.2f}, "
        f"test perplexity {perplexities['test']:.2f}"
    )
    record = {
        "kind": "language model",
        "run": settings["run"],
        "seed": settings["seed"],
        "corpus": settings["corpus"],
        "model": settings["model"],
        "embedding": describe_input_layer(model.input_layer),
        "parameters": count_parameters(model),
        "vocabulary": len(corpus.vocabulary),
        "steps": trainer.global_step,
        "epochs": settings["epochs"],
        "seconds": round(progress.seconds, 1),
        "device": device,
        "tries": _tries(output / "metrics"),
        "gpu_use": summarise(gpu_log),
        "tokens_per_second": round(median_speed(progress.curve), 1),
        "learning_curve": progress.curve,
        "validation": module.validation,
        "perplexity": perplexities,
        "tokens": corpus.token_counts,
        "versions": versions("lightning"),
    }
    save_model(output / "model.pt", model, settings, corpus.vocabulary)
    write_record(output / "record.json", record)


def _checkpoint_to_go_on_from(
    folder: Path, settings: dict[str, Any], corpus: Corpus
) -> tuple[Path | None, int]:
    found = lm_checkpoints(folder).newest_valid()
    if found is None:
        return None, 0
    step, path, content = found
    check_same_run(path, content["language_model"], settings, corpus)
    report(f"[{settings['run']}] going on from step {step:,} ({path})")
    return path, step


def _tries(metrics: Path) -> list[dict[str, int]]:
    """The steps that the training was started or gone on from; each try logs to its own folder."""
    steps = (int(folder.name.removeprefix("from-step-")) for folder in metrics.iterdir())
    return [{"from_step": step} for step in sorted(steps)]


def median_speed(curve: list[dict[str, float]]) -> float:
    """Median of the tokens a second over the learning curve, its first point left out."""
    return statistics.median(point["tokens_per_second"] for point in curve[1:] or curve)

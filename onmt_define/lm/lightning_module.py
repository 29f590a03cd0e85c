"""What one step, one epoch and one checkpoint of a language model's training consist of.

A checkpoint holds all that the next step depends on, the model's state and the random numbers too,
so that a training that was stopped and started again ends with the same weights as one that wasn't.
"""

from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor

from onmt_define.lm.averaging import RunningAverage, has_stopped_improving
from onmt_define.lm.batches import Batch, BpttBatches
from onmt_define.lm.cuda_graphs import give_up_recording
from onmt_define.lm.data import Corpus
from onmt_define.lm.evaluation import split_perplexity
from onmt_define.lm.graphed_gradients import GraphedGradients, can_be_graphed
from onmt_define.lm.loss_watch import LossWatch
from onmt_define.lm.model import LanguageModel
from onmt_define.lm.nested import join_streams, map_tensors
from onmt_define.lm.optimizing import build_optimizer, learning_rate_factor
from onmt_define.lm.reporting import report
from onmt_define.lm.transformer_xl import TransformerXlContext

VALIDATION_BATCH_SIZE = 10


class LanguageModelTraining(lightning.LightningModule):
    """A model in training.

    Args:
        model: what is trained.
        settings: a complete run, see `run.schema.yaml`.
        corpus: its texts.
        batches: the training text.
        folder: where checkpoints go.
    """

    def __init__(
        self,
        model: LanguageModel,
        settings: dict[str, Any],
        corpus: Corpus,
        batches: BpttBatches,
        folder: Path,
    ) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.corpus = corpus
        self.batches = batches
        self.state: Any = None
        self.saved: dict[str, Any] | None = None
        self.validation: list[dict[str, float]] = []
        self.average = RunningAverage(model.parameters())
        self.graphed: GraphedGradients | None = None
        self.watch = LossWatch(settings["run"], len(corpus.vocabulary), folder)

    def training_step(self, batch: Batch) -> dict[str, Any]:
        """Mean loss of a batch, with its penalties."""
        if batch.starts_anew:
            self._start_fine_tuning()
        state = None if batch.starts_anew else self.state
        loss, value = self._replay(batch, state) or self._read(batch, state)
        self.watch.add(self.global_step + 1, value)
        return {
            "loss": loss,
            "value": value,
            "tokens": batch.targets.numel(),
            "learning_rate": self._set_learning_rate(len(batch.inputs)),
        }

    def _read(self, batch: Batch, state: Any) -> tuple[Tensor, Tensor]:
        """The loss to learn from, and what of it is the text's."""
        reading = self.model(batch.inputs, batch.targets, state, batch.band_sizes)
        self.state = map_tensors(Tensor.detach, reading.state)
        loss = reading.losses.mean()
        return loss + reading.penalty, loss.detach()

    def _replay(self, batch: Batch, state: Any) -> tuple[Tensor, Tensor] | None:
        """The same with the gradients taken already; None if there can be no CUDA graph of it."""
        if self.graphed is None:
            return None
        try:
            value, self.state = self.graphed(batch, state)
        except RuntimeError as error:
            self.graphed = None
            reason = give_up_recording(error)
            report(f"[{self.settings['run']}] steps are launched one by one: {reason}")
            return None
        return value, value

    def backward(self, loss: Tensor, *arguments: Any, **options: Any) -> None:
        """Take the gradients, unless a graph has."""
        if self.graphed is None:
            super().backward(loss, *arguments, **options)

    def optimizer_zero_grad(self, *arguments: Any) -> None:
        """Forget the last gradients, unless a graph has overwritten them."""
        if self.graphed is None:
            super().optimizer_zero_grad(*arguments)

    def _set_learning_rate(self, length: int) -> float:
        """The step's learning rate, with random lengths in proportion to the length."""
        learning_rate = self.lr_schedulers().get_last_lr()[0]
        if self.settings["random_bptt"]:
            learning_rate *= length / self.settings["bptt"]
            self.trainer.optimizers[0].param_groups[0]["lr"] = learning_rate
        return learning_rate

    def _start_fine_tuning(self) -> None:
        first = self.settings["epochs"] - self.settings["fine_tuning_epochs"]
        if self.settings["fine_tuning_epochs"] and self.current_epoch == first:
            if self.average.is_running:
                self.average.take_over()
            self.average.start()

    def configure_optimizers(self) -> dict[str, Any]:
        """One optimiser, its learning rate set anew in each step."""
        optimizer = build_optimizer(self.settings, list(self.model.parameters()))
        factor = learning_rate_factor(self.settings, len(self.batches))
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def configure_gradient_clipping(self, *_: Any, **__: Any) -> None:
        """Bound the norm; Lightning's own refuses optimisers of a single kernel."""
        if self.settings["gradient_clip"] and self.graphed is None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings["gradient_clip"])

    def optimizer_step(self, *arguments: Any, **options: Any) -> None:
        """Change the weights and, where that has begun, average them."""
        super().optimizer_step(*arguments, **options)
        if self.average.is_running:
            self.average.update()

    def on_train_epoch_end(self) -> None:
        """Score the validation text."""
        self.watch.check()
        with self.average.in_place():
            value = split_perplexity(
                self.model, self.corpus, "valid", self.settings, VALIDATION_BATCH_SIZE
            )
        epoch = self.current_epoch + 1
        self.validation.append({"step": self.global_step, "epoch": epoch, "perplexity": value})
        for logger in self.trainer.loggers:
            logger.log_metrics({"valid_perplexity": value}, self.global_step)
        report(
            f"[{self.settings['run']}] epoch {epoch}/{self.settings['epochs']}, "
            f"valid perplexity {value:.2f}"
        )
        patience = self.settings["average_after"]
        if patience and not self.average.is_running:
            perplexities = [point["perplexity"] for point in self.validation]
            if has_stopped_improving(perplexities, patience):
                self.average.start()
                report(f"[{self.settings['run']}] averaging the weights from now on")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what Lightning doesn't know of; a training gone wrong isn't saved."""
        self.watch.check()
        self.watch.check_weights(self.global_step, list(self.model.parameters()))
        parts = gather(
            {
                "state": map_tensors(Tensor.cpu, self.state),
                "random": torch.get_rng_state(),
                "random_cuda": torch.cuda.get_rng_state() if self.on_gpu else None,
            }
        )
        checkpoint["language_model"] = {
            "settings": self.settings,
            "checksums": self.corpus.checksums,
            "batches": self.batches.state_dict(),
            "vocabulary": self.corpus.vocabulary.tokens,
            "validation": self.validation,
            "average": self.average.state_dict(),
            "state": join_streams([part["state"] for part in parts]),
            "random": [part["random"] for part in parts],
            "random_cuda": [part["random_cuda"] for part in parts],
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `on_save_checkpoint` added; the model isn't on its device yet."""
        self.saved = checkpoint["language_model"]
        self.validation = self.saved["validation"]
        self.average.load_state_dict(self.saved["average"])
        # Lightning gives it back in the middle of an epoch alone.
        self.batches.load_state_dict(self.saved["batches"])

    def on_train_start(self) -> None:
        """Put what a checkpoint gave where the model is now, on any number of GPUs."""
        self.average.follow_weights()
        if can_be_graphed(self.model, self.settings["precision"], self.trainer.world_size):
            self.graphed = GraphedGradients(self.model, self.settings["gradient_clip"])
        is_alone = self.on_gpu and self.trainer.world_size == 1
        if is_alone and isinstance(self.model.context, TransformerXlContext):
            self.model.context.graph_layers(self.settings["bptt"])
        if self.saved is None:
            return
        rank, processes = self.global_rank, self.trainer.world_size
        self.state = map_tensors(
            lambda part: part.chunk(processes, dim=1)[rank].to(self.device), self.saved["state"]
        )
        # On another number of GPUs the random numbers are others, and as good.
        if len(self.saved["random"]) == processes:
            torch.set_rng_state(self.saved["random"][rank].cpu())
            if self.on_gpu and self.saved["random_cuda"][rank] is not None:
                torch.cuda.set_rng_state(self.saved["random_cuda"][rank].cpu())
        self.saved = None

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"


def gather(part: Any) -> list[Any]:
    """The same of all processes, in order of their rank."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return [part]
    parts = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, part)
    return parts

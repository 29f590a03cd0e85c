"""OpenNMT-py's trainer with the packed step in place of its own.

Everything that isn't the step stays OpenNMT-py's: accumulation, learning rate, clipping, moving
average, reports, validation, early stopping, checkpoints.
"""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from onmt.constants import CorpusName, DefaultTokens
from onmt.trainer import Trainer
from onmt.utils import Statistics
from onmt.utils.logging import logger
from torch.nn.parallel import DistributedDataParallel
from torch.utils._triton import has_triton

from onmt_define.opennmt.corpora import line_checks, require_as_many_lines
from onmt_define.opennmt.packed_training.attention import flash_runs_on
from onmt_define.opennmt.packed_training.batches import (
    Corpus,
    PackedBatch,
    PackedBatches,
    SpecialTokens,
)
from onmt_define.opennmt.packed_training.cuda_graph import GraphedGradients
from onmt_define.opennmt.packed_training.model import PackedModel
from onmt_define.opennmt.packed_training.token_files import open_token_file
from onmt_define.opennmt.stopping import until_asked_to_stop


def build_batches(opt: Namespace, vocabs: Any, rank: int, ranks: int) -> PackedBatches:
    """The training batches of one process, from the texts that `opt.data` names."""
    folder = Path(opt.packed_data or Path(opt.save_model).parent / "token-ids")
    corpora = [
        _open_corpus(opt, name, vocabs, folder) for name in opt.data if name != CorpusName.VALID
    ]
    special = SpecialTokens(
        source_padding=vocabs["src"][DefaultTokens.PAD],
        target_padding=vocabs["tgt"][DefaultTokens.PAD],
        start=vocabs["tgt"][vocabs["decoder_start_token"]],
        end=vocabs["tgt"][DefaultTokens.EOS],
    )
    batches = PackedBatches(
        corpora,
        special,
        opt.batch_size,
        seed=max(0, opt.seed),  # -1 is no seed, but all processes need the same order
        rank=rank,
        ranks=ranks,
        fixed=len(opt.gpu_ranks) > 0,
    )
    if batches.left_out:
        logger.info(
            f"{batches.left_out:,} sentence pairs are left out: a side is empty or longer than "
            f"batch_size ({opt.batch_size} tokens)"
        )
    return batches


def _open_corpus(opt: Namespace, name: str, vocabs: Any, folder: Path) -> Corpus:
    corpus = opt.data[name]
    source, target = (
        open_token_file(
            *(f"data.{name}.{setting}", corpus[setting], vocabs[side], folder, logger.info),
            *line_checks(opt, name, setting),
        )
        for setting, side in (("path_src", "src"), ("path_tgt", "tgt"))
    )
    counts = {corpus["path_src"]: len(source.lengths), corpus["path_tgt"]: len(target.lengths)}
    require_as_many_lines(f"data.{name}", counts)
    return Corpus(source, target, int(corpus["weight"]))


class PackedTrainer(Trainer):
    """Takes `PackedBatches` and makes each step of them."""

    def use_packed_steps(self, opt: Namespace) -> None:
        """Prepare model and optimizer; to be called once, after construction."""
        self.device = next(self.model.parameters()).device
        half = opt.compute_dtype == "bf16" and flash_runs_on(self.device)
        dtype = torch.bfloat16 if half else torch.float32
        compiled = half and has_triton()
        logger.info(
            f"training_loop packed on {self.device}: {'bf16' if half else 'fp32'}, "
            f"{'flash' if half else 'padded'} attention, "
            f"{'compiled' if compiled else 'not compiled'}"
        )
        packed: Any = PackedModel(
            self.model,
            label_smoothing=opt.label_smoothing,
            padding=self.train_loss.padding_idx,
            compute_dtype=dtype,
            flash=half,
            compiled=compiled,
        )
        self.replicas = max(1, self.n_gpu)
        if self.replicas > 1:
            packed = DistributedDataParallel(
                packed,
                device_ids=[self.device] if self.device.type == "cuda" else None,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
            )
        self.packed = packed
        # The processes' all-reduce in the middle of a backward pass isn't recorded.
        self.graph = GraphedGradients(packed) if compiled and self.replicas == 1 else None
        self.parallel_mode = "packed"  # OpenNMT-py's own would wait for all processes each step
        _fuse(self.optim)

    def train(self, train_iter: PackedBatches, *arguments: Any, **settings: Any) -> Any:
        """Go on in the data where the checkpoint stopped, if there is one."""
        self.batches = train_iter
        place = getattr(self.model_saver.model_opt, "packed_place", None)
        if place is not None and self.optim.training_step > 1:
            train_iter.go_on_from(place)
        return super().train(train_iter, *arguments, **settings)

    def _maybe_update_dropout(self, step: int) -> None:
        super()._maybe_update_dropout(step)
        if self.graph is not None and step - 1 in self.dropout_steps:
            self.graph.forget()

    def _accum_batches(self, iterator: PackedBatches) -> Iterator[tuple[list[PackedBatch], int]]:
        return until_asked_to_stop(self, self._batches_of_steps(iterator))

    def _batches_of_steps(self, iterator: PackedBatches) -> Iterator[tuple[list[PackedBatch], int]]:
        batches: list[PackedBatch] = []
        self.accum_count = self._accum_count(self.optim.training_step)
        for batch in iterator:
            batches.append(batch)
            if len(batches) == self.accum_count:
                sentences = sum(batch.all_sentences for batch in batches)
                words = sum(batch.all_target_words for batch in batches)
                # As OpenNMT-py counts: words without the end of the sentence.
                yield batches, words - sentences if self.norm_method == "tokens" else sentences
                self.accum_count = self._accum_count(self.optim.training_step)
                batches = []

    def _gradient_accumulation(
        self,
        true_batches: list[PackedBatch],
        normalization: int,
        total_stats: Statistics,
        report_stats: Statistics,
    ) -> None:
        self.optim._optimizer.zero_grad(set_to_none=self.graph is None)
        # Gradients are averaged over the processes, but the loss is normalised over all.
        scale = self.replicas / normalization
        for number, batch in enumerate(true_batches, start=1):
            if self.replicas > 1:
                self.packed.require_backward_grad_sync = number == len(true_batches)
            if self.graph is not None:
                loss, right = self.graph(batch.to(self.device), scale)
            else:
                loss, right = self.packed(batch.to(self.device))
                (loss * scale).backward()
            for stats in (total_stats, report_stats):
                stats.n_src_words += batch.source_words
                # Stays on the device until a report reads it.
                stats.update(
                    Statistics(loss.detach(), 1, batch.sentences, batch.target_words, right)
                )
        self.optim.step()
        self.model_saver.model_opt.packed_place = self.batches.place()

    def _maybe_report_training(
        self, step: int, num_steps: int, learning_rate: float, report_stats: Statistics
    ) -> Statistics:
        if step % self.report_manager.report_every == 0:
            report_stats.loss = float(report_stats.loss)
            report_stats.n_correct = int(report_stats.n_correct)
        return self.report_manager.report_training(
            step,
            num_steps,
            learning_rate,
            None if self.earlystopper is None else self.earlystopper.current_tolerance,
            report_stats,
            multigpu=self.replicas > 1,
        )


def _fuse(optim: Any) -> None:
    """Let Adam update all parameters in few kernels."""
    adam = optim._optimizer
    if type(adam) in (torch.optim.Adam, torch.optim.AdamW):
        for group in adam.param_groups:
            group.update(fused=True, foreach=False)
        # Loaded states hold their step on the CPU; the fused kernel wants it beside the rest.
        for parameter, state in adam.state.items():
            state["step"] = torch.as_tensor(state["step"]).float().to(parameter.device)

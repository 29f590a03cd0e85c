"""Lets OpenNMT-py's trainer save and stop between two steps when a signal asks for it.

Stock OpenNMT-py dies of SIGTERM in the middle of a step. The ranks of one training have to stop
after the same step, or those that go on wait for the others for ever. So they vote after each
step, and look at a vote one step later: it is counted while the next step is computed, and no GPU
waits for it.
"""

import functools
import signal
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import get_worker_info

from onmt_define.stop_signals import StopRequest


class _Vote:
    """Whether any rank was asked to stop: the signal's number, the same on all ranks."""

    def __init__(self, request: StopRequest, device: torch.device) -> None:
        self._request = request
        self._device = device
        self._alone = not torch.distributed.is_initialized()
        self._counting: tuple[Any, torch.Tensor] | None = None
        self.signal: int | None = None

    def hold(self) -> None:
        """Learn what the vote before came to, and cast the next one."""
        if self._alone:
            self.signal = self._request.signal
            return
        self.count()
        ballot = torch.tensor([self._request.signal or 0], device=self._device)
        work = torch.distributed.all_reduce(ballot, torch.distributed.ReduceOp.MAX, async_op=True)
        self._counting = (work, ballot)

    def count(self) -> None:
        """Wait for the vote that was cast last."""
        if self._counting is not None:
            work, ballot = self._counting
            work.wait()
            self.signal = int(ballot.item()) or None
            self._counting = None


def patch_trainer(module: ModuleType) -> None:
    """Give `onmt.trainer.Trainer` an end that a signal brings about."""
    trainer_class = module.Trainer
    original_train, original_batches = trainer_class.train, trainer_class._accum_batches

    @functools.wraps(original_train)
    def train(self: Any, *arguments: Any, **settings: Any) -> Any:
        request = StopRequest()
        self.stopped_by = None
        self.stop_vote = _Vote(request, next(self.model.parameters()).device)
        with request.listening():
            statistics = original_train(self, *arguments, **settings)
            self.stop_vote.count()
        if self.stopped_by is not None:
            name, step = signal.Signals(self.stopped_by).name, self.optim.training_step - 1
            module.logger.info(f"Stopped by {name} after step {step}, which is saved")
            raise SystemExit(128 + self.stopped_by)
        return statistics

    @functools.wraps(original_batches)
    def _accum_batches(self: Any, iterator: Any) -> Iterator[Any]:
        """The trainer saves once the batches end."""
        for batches in original_batches(self, iterator):
            yield batches
            self.stop_vote.hold()
            if self.stop_vote.signal is not None:
                self.stopped_by = self.stop_vote.signal
                return

    trainer_class.train = train
    trainer_class._accum_batches = _accum_batches


def patch_data_iterator(module: ModuleType) -> None:
    """Let the processes that read the text outlive the signal, which a cluster sends to all.

    Else the trainer would end with an error of theirs before it has saved. The first SIGTERM is
    the cluster's; a second one, of the trainer when it ends, is obeyed.
    """
    original = module.DynamicDatasetIter._init_datasets

    @functools.wraps(original)
    def _init_datasets(self: Any, worker_id: int) -> None:
        if get_worker_info() is not None:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))
        original(self, worker_id)

    module.DynamicDatasetIter._init_datasets = _init_datasets

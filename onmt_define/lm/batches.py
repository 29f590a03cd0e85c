"""Batches for truncated back-propagation through time.

The training text is one stream, cut into `batch_size` contiguous ones that are read side by side,
about `bptt` tokens a step, so that the state can be carried from step to step.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from onmt_define.errors import UserError

# Random lengths as Merity et al. (2018b, section 4) draw them: around bptt, now and then half.
HALVED_SHARE = 0.05
LENGTH_SPREAD = 5
SHORTEST = 5


class Batch(NamedTuple):
    """What one step reads.

    Attributes:
        inputs: token ids, int64 (time, batch).
        targets: the same one token further on.
        starts_anew: whether the state before the batch is that before any token.
        band_sizes: how many targets lie in each band of an adaptive softmax. Counted here, since a
            GPU that is asked would have to finish all its work first.
    """

    inputs: Tensor
    targets: Tensor
    starts_anew: bool
    band_sizes: list[int]


class BpttBatches:
    """One epoch's batches, in order.

    The last batch of an epoch may be shorter; tokens that don't fill all streams (fewer than
    `batch_size`) are left out. `state_dict` and `load_state_dict` let Lightning go on in the middle
    of an epoch.

    Args:
        ids: token ids of the whole text.
        batch_size: number of streams.
        bptt: tokens of each stream in a batch.
        cutoffs: bands of an adaptive softmax, see `Batch.band_sizes`.
        random_seed: draw each batch's length at random around bptt, other ones in each epoch; the
            number of batches stays the same. None makes all batches equally long.
        part: which of how many equal parts of the streams to read, for one of several GPUs.

    Raises:
        UserError: more streams than half the tokens, or streams that can't be divided evenly.
    """

    def __init__(
        self,
        ids: np.ndarray,
        batch_size: int,
        bptt: int,
        *,
        cutoffs: Sequence[int] = (),
        random_seed: int | None = None,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        length = len(ids) // batch_size
        if length < 2:
            raise UserError(
                f"batch_size is {batch_size}, expected at most {len(ids) // 2}, half the "
                f"{len(ids)} tokens of the training text"
            )
        index, parts = part
        if batch_size % parts:
            raise UserError(
                f"batch_size is {batch_size}, expected a multiple of the {parts} GPUs in use"
            )
        own = batch_size // parts
        streams = ids[: batch_size * length].reshape(batch_size, length)
        self.streams = streams[index * own : (index + 1) * own]
        self.bptt = bptt
        self.edges = [0, *cutoffs, np.iinfo(np.int32).max]
        self.random_seed = random_seed
        self.pinned = torch.cuda.is_available()
        self.epoch = 0
        self.position = 0

    def __len__(self) -> int:
        mean = self.bptt
        if self.random_seed is not None:
            mean = self.bptt * (1 - HALVED_SHARE / 2)
        return math.ceil((self.streams.shape[1] - 1) / mean)

    def __iter__(self) -> Iterator[Batch]:
        first, self.position = self.position, 0
        bounds = self.bounds(self.epoch)
        for index in range(first, len(self)):
            window = self.streams[:, bounds[index] : bounds[index + 1] + 1].T.astype(np.int64)
            tokens = torch.from_numpy(window)
            if self.pinned:
                tokens = tokens.pin_memory()
            bands, _ = np.histogram(window[1:], self.edges)
            self.position = (index + 1) % len(self)
            self.epoch += self.position == 0
            yield Batch(tokens[:-1], tokens[1:], index == 0, bands.tolist())

    def bounds(self, epoch: int) -> list[int]:
        """Where in the streams each batch of an epoch begins, and where the last one ends."""
        count, end = len(self), self.streams.shape[1] - 1
        if self.random_seed is None:
            return [min(index * self.bptt, end) for index in range(count + 1)]
        generator = np.random.default_rng((self.random_seed, epoch))
        means = np.where(generator.random(count) < HALVED_SHARE, self.bptt / 2, self.bptt)
        lengths = np.maximum(SHORTEST, generator.normal(means, LENGTH_SPREAD))
        return np.rint(np.cumsum([0, *lengths]) / lengths.sum() * end).astype(int).tolist()

    def state_dict(self) -> dict[str, int]:
        """Where the next batch is."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next epoch begin at a saved place."""
        self.epoch, self.position = state["epoch"], state["position"]

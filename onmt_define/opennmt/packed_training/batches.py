"""Batches of whole sentences that fill a fixed number of tokens on each side.

Sentences come in a random order, new in every epoch, and are cut into batches greedily: a batch
ends before the sentence that would not fit. A position in that stream is the number of sentences
before it, so that a training goes on at the very sentence where it stopped, also with another
batch size or number of GPUs, as long as the same sentences fit into a batch.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from onmt_define.errors import UserError
from onmt_define.opennmt.packed_training.token_files import TokenFile
from onmt_define.opennmt.texts import MOST_POSITIONS

SHORTEST_BOUND = 64
"""Filler comes in pieces no longer than the longest sentence, or this; it bounds their number."""
SENTENCES_PLANNED_AT_ONCE = 1 << 16

Cut = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Corpus, line and (2, sentences) lengths of each sentence of a batch."""


@dataclass(frozen=True)
class SpecialTokens:
    """Ids that surround a target sentence and fill what is left over."""

    source_padding: int
    target_padding: int
    start: int
    end: int


@dataclass(frozen=True)
class Side:
    """The tokens of one side of a batch, all sentences one after the other.

    `tokens` and `positions` (within the sentence) are int64 (total tokens,); `offsets` is int32
    (sequences + 1,): where each sequence begins. Sequences without tokens may occur, and the last
    ones are filler.
    """

    tokens: Tensor
    positions: Tensor
    offsets: Tensor
    longest: int


@dataclass(frozen=True)
class PackedBatch:
    """What one process reads in one step.

    `labels` (total tokens,) are the target tokens that follow those of `target`. The counts of
    `all_*` are summed over the batches that all processes read in that step.
    """

    source: Side
    target: Side
    labels: Tensor
    sentences: int
    source_words: int
    target_words: int
    all_sentences: int
    all_target_words: int

    def to(self, device: torch.device) -> "PackedBatch":
        """The same on a device, copied without waiting for it."""
        if device.type == "cpu":
            return self

        def move(tensor: Tensor) -> Tensor:
            return tensor.pin_memory().to(device, non_blocking=True)

        def move_side(side: Side) -> Side:
            tensors = map(move, (side.tokens, side.positions, side.offsets))
            return Side(*tensors, side.longest)

        return replace(
            self,
            source=move_side(self.source),
            target=move_side(self.target),
            labels=move(self.labels),
        )


@dataclass(frozen=True)
class Corpus:
    """Both sides of one parallel text; of every `weight` sentences drawn, relative to others."""

    source: TokenFile
    target: TokenFile
    weight: int


class SentenceOrder:
    """An endless stream of sentences: each corpus shuffled anew whenever it is used up.

    As in OpenNMT-py, corpora take turns by weight, and a shorter one begins again while a longer
    one still goes on.
    """

    def __init__(self, usable: list[np.ndarray], weights: list[int], seed: int) -> None:
        self._usable = usable
        self._seed = seed
        turn = np.repeat(np.arange(len(weights)), weights)
        self._turn = turn
        self._rank_in_turn = np.concatenate([np.arange(weight) for weight in weights])
        self._weights = np.array(weights)
        self._shuffled: dict[tuple[int, int], np.ndarray] = {}

    def take(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Corpus and line of the sentences number `first` to `first + count` of the stream."""
        number = np.arange(first, first + count)
        turn, place = np.divmod(number, len(self._turn))
        corpus = self._turn[place]
        nth = turn * self._weights[corpus] + self._rank_in_turn[place]
        line = np.empty(count, np.int64)
        for index, usable in enumerate(self._usable):
            mine = corpus == index
            epoch, within = np.divmod(nth[mine], len(usable))
            lines = np.empty(len(within), np.int64)
            for each in np.unique(epoch):
                lines[epoch == each] = self._epoch(index, int(each))[within[epoch == each]]
            line[mine] = lines
        return corpus, line

    def _epoch(self, corpus: int, epoch: int) -> np.ndarray:
        if (corpus, epoch) not in self._shuffled:
            self._shuffled = {
                key: order
                for key, order in self._shuffled.items()
                if key[0] != corpus or key[1] == epoch - 1
            }
            rng = np.random.default_rng([self._seed, corpus, epoch])
            self._shuffled[corpus, epoch] = rng.permutation(self._usable[corpus])
        return self._shuffled[corpus, epoch]


class PackedBatches:
    """Iterates over the batches of one process, for ever.

    Args:
        corpora: what to draw from.
        special: ids of special tokens.
        tokens: budget of each side; the side with fewer tokens on average gets less.
        seed: decides the order.
        rank, ranks: this process takes every `ranks`-th batch.
        fixed: always the same number of tokens and sequences, as a compiled model needs it.

    Raises:
        UserError: no sentence that fits the budget.
    """

    def __init__(
        self,
        corpora: list[Corpus],
        special: SpecialTokens,
        tokens: int,
        *,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        fixed: bool = True,
    ) -> None:
        self.corpora, self.special = corpora, special
        self.rank, self.ranks, self.fixed = rank, ranks, fixed
        self._lengths = [
            # Of the target, start and words are read, words and end predicted.
            np.stack([corpus.source.lengths, corpus.target.lengths + 1])
            for corpus in corpora
        ]
        usable = [
            np.flatnonzero(
                (lengths[0] > 0)
                & (lengths[1] > 1)
                & (lengths.max(axis=0) <= min(tokens, MOST_POSITIONS))
            )
            for lengths in self._lengths
        ]
        self.left_out = sum(each.shape[1] for each in self._lengths) - sum(map(len, usable))
        if not all(map(len, usable)):
            raise UserError(
                f"no sentence pair of a corpus fits into batch_size {tokens} tokens, expected more"
            )
        self._set_budget(tokens, usable)
        self._usable = usable
        self.go_on_from({"seed": seed, "sentences": 0})

    def go_on_from(self, place: dict[str, int]) -> None:
        """Begin at a place in the stream that `place` gave, in this training or another."""
        weights = [corpus.weight for corpus in self.corpora]
        self._order = SentenceOrder(self._usable, weights, place["seed"])
        self._seed, self._position = place["seed"], place["sentences"]

    def place(self) -> dict[str, int]:
        """Where in the stream the next batch begins, for a checkpoint."""
        return {"seed": self._seed, "sentences": self._position}

    def _set_budget(self, tokens: int, usable: list[np.ndarray]) -> None:
        drawn = [lengths[:, lines] for lengths, lines in zip(self._lengths, usable, strict=True)]
        weights = [corpus.weight for corpus in self.corpora]
        mean = np.average([each.mean(axis=1) for each in drawn], axis=0, weights=weights)
        longest = max(int(each.max()) for each in drawn)
        self.longest = max(longest, SHORTEST_BOUND)
        # A little more than the mean's share, so that seldom the smaller side ends a batch.
        share = np.minimum(1.0, 1.02 * mean / mean.max())
        self.budget = np.maximum(np.ceil(tokens * share).astype(int), longest)
        self.most_sentences = math.ceil(1.1 * tokens / mean.max()) + 8
        self._fillers = math.ceil((self.budget.max() + 128) / (self.longest - 1)) + 1
        self.totals = [_round_up(int(budget) + self._fillers, 128) for budget in self.budget]

    def __iter__(self) -> Iterator[PackedBatch]:
        """Batches from the present place on, which moves along once all processes have theirs."""
        cuts = self._cuts(self._position)
        while True:
            of_all = [next(cuts) for _ in range(self.ranks)]
            self._position += sum(len(line) for _, line, _ in of_all)
            yield self._pack(*of_all[self.rank], of_all)

    def _cuts(self, first: int) -> Iterator[Cut]:
        """What one batch after the other consists of."""
        in_an_epoch = sum(map(len, self._usable))
        count = max(min(SENTENCES_PLANNED_AT_ONCE, in_an_epoch), 2 * self.most_sentences)
        while True:
            corpus, line = self._order.take(first, count)
            lengths = self._lengths_of(corpus, line)
            ends = lengths.cumsum(axis=1)
            begin, used = 0, np.zeros(2, np.int64)
            while begin + self.most_sentences < count:
                fits = (
                    np.searchsorted(ends[side], used[side] + self.budget[side], "right")
                    for side in (0, 1)
                )
                end = min(*map(int, fits), begin + self.most_sentences)
                yield corpus[begin:end], line[begin:end], lengths[:, begin:end]
                begin, used = end, ends[:, end - 1]
            first += begin

    def _lengths_of(self, corpus: np.ndarray, line: np.ndarray) -> np.ndarray:
        """Tokens that sentences take in a batch, (2, sentences)."""
        lengths = np.empty((2, len(line)), np.int64)
        for index, of_lines in enumerate(self._lengths):
            lengths[:, corpus == index] = of_lines[:, line[corpus == index]]
        return lengths

    def _pack(
        self, corpus: np.ndarray, line: np.ndarray, lengths: np.ndarray, of_all: list[Cut]
    ) -> PackedBatch:
        source_lengths, target_lengths = lengths
        source = _concatenate([each.source for each in self.corpora], corpus, line)
        words = _concatenate([each.target for each in self.corpora], corpus, line)
        starts = target_lengths.cumsum() - target_lengths
        target = np.full(target_lengths.sum(), self.special.start)
        target[_ranges(starts + 1, target_lengths - 1)] = words
        labels = np.full(target_lengths.sum(), self.special.end)
        labels[_ranges(starts, target_lengths - 1)] = words
        padding = self.special.target_padding
        return PackedBatch(
            self._side(source, source_lengths, self.special.source_padding, self.totals[0]),
            self._side(target, target_lengths, padding, self.totals[1]),
            torch.from_numpy(self._fill(labels, padding, self.totals[1])),
            sentences=len(line),
            source_words=len(source),
            target_words=len(labels),
            all_sentences=sum(len(line) for _, line, _ in of_all),
            all_target_words=sum(int(lengths[1].sum()) for _, _, lengths in of_all),
        )

    def _side(self, ids: np.ndarray, lengths: np.ndarray, padding: int, total: int) -> Side:
        if self.fixed:
            unused = np.zeros(self.most_sentences - len(lengths), np.int64)
            lengths = np.concatenate([lengths, unused, self._filler_lengths(total - len(ids))])
        ends = lengths.cumsum()
        return Side(
            torch.from_numpy(self._fill(ids, padding, total)),
            torch.from_numpy(_ranges(np.zeros_like(lengths), lengths)),
            torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32)),
            self.longest,
        )

    def _fill(self, ids: np.ndarray, padding: int, total: int) -> np.ndarray:
        if not self.fixed:
            return ids
        return np.pad(ids, (0, total - len(ids)), constant_values=padding)

    def _filler_lengths(self, tokens: int) -> np.ndarray:
        """Sequences of filler, each at least one token long, so that none is left to attend."""
        lengths = np.ones(self._fillers, np.int64)
        rest = tokens - self._fillers
        full, last = divmod(rest, self.longest - 1) if self.longest > 1 else (0, 0)
        lengths[:full] += self.longest - 1
        lengths[min(full, self._fillers - 1)] += last
        return lengths


def _concatenate(files: list[TokenFile], corpus: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Ids of the given lines, one line after the other."""
    starts, lengths = np.empty_like(line), np.empty_like(line)
    for index, file in enumerate(files):
        mine = corpus == index
        starts[mine] = file.offsets[line[mine]]
        lengths[mine] = file.offsets[line[mine] + 1] - starts[mine]
    ids = np.empty(lengths.sum(), np.int64)
    begins = lengths.cumsum() - lengths
    for index, file in enumerate(files):
        mine = corpus == index
        ids[_ranges(begins[mine], lengths[mine])] = file.ids[_ranges(starts[mine], lengths[mine])]
    return ids


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers `start` to `start + length` of each pair, one range after the other."""
    ends = lengths.cumsum()
    return np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple

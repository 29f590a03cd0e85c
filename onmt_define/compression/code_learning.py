"""Learns codes for the vectors of a table (Shu and Nakayama, 2017).

An encoder turns a vector into M distributions over K codewords each, a Gumbel-softmax draws from
them so that gradients pass, and the sum of the drawn codewords has to give the vector back. Once
trained, each distribution's most likely codeword is the code. The temperature falls while it
trains, which brings what is drawn near the single codeword that is used in the end.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.progress_line import SECONDS_BETWEEN_LINES

BATCH_SIZE = 128
LEARNING_RATE = 0.005
WARM_UP_STEPS = 100
FIRST_TEMPERATURE, LAST_TEMPERATURE = 1.0, 0.3
ROWS_AT_ONCE = 8192


@dataclass(frozen=True)
class Progress:
    """How far a training is; `error` is the mean squared error since the last report."""

    step: int
    steps: int
    error: float
    seconds_left: float


class CodeLearner(nn.Module):
    """Encoder and codebooks.

    Shapes: vectors (rows, width); codes (rows, codebooks); codewords (codebooks * codes, width).
    """

    def __init__(self, width: int, codebooks: int, codes: int) -> None:
        super().__init__()
        self.codebooks, self.codes = codebooks, codes
        hidden = codebooks * codes // 2
        self.encoder = nn.Sequential(
            nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, codebooks * codes)
        )
        self.codewords = nn.Parameter(torch.randn(codebooks * codes, width) / codebooks**0.5)

    def forward(self, vectors: Tensor, temperature: float) -> Tensor:
        """The vectors rebuilt from codewords that were drawn at this temperature."""
        drawn = functional.gumbel_softmax(self._scores(vectors), temperature)
        return drawn.flatten(1) @ self.codewords

    @torch.no_grad()
    def encode(self, vectors: Tensor) -> Tensor:
        """The most likely codes."""
        chunks = vectors.split(ROWS_AT_ONCE)
        return torch.cat([self._scores(chunk).argmax(-1) for chunk in chunks])

    def _scores(self, vectors: Tensor) -> Tensor:
        strengths = functional.softplus(self.encoder(vectors)).clamp(min=1e-8).log()
        return strengths.unflatten(1, (self.codebooks, self.codes))


def learn_codes(
    vectors: Tensor,
    codebooks: int,
    codes: int,
    steps: int,
    report: Callable[[Progress], None],
) -> tuple[Tensor, Tensor]:
    """Train a `CodeLearner` on a table (rows, width) of about unit variance.

    Returns:
        The codes (rows, codebooks) and the codewords (codebooks * codes, width).
    """
    learner = CodeLearner(vectors.shape[1], codebooks, codes).to(vectors.device)
    optimizer = torch.optim.Adam(learner.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARM_UP_STEPS) * (1 - step / steps)
    )
    started = reported = time.monotonic()
    total, since = torch.zeros((), device=vectors.device), 0
    for step, batch in enumerate(_batches(vectors, steps)):
        temperature = FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** (step / steps)
        loss = functional.mse_loss(learner(batch, temperature), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total, since = total + loss.detach(), since + 1
        now = time.monotonic()
        if now - reported > SECONDS_BETWEEN_LINES:
            left = (now - started) / (step + 1) * (steps - step - 1)
            report(Progress(step + 1, steps, total.item() / since, left))
            total, since, reported = torch.zeros_like(total), 0, now
    return learner.encode(vectors), learner.codewords.detach()


def _batches(vectors: Tensor, steps: int) -> Iterator[Tensor]:
    """Random rows; every row comes once before one comes again."""
    order: Tensor | None = None
    at = 0
    for _ in range(steps):
        if order is None or at >= len(order):
            order, at = torch.randperm(len(vectors), device=vectors.device), 0
        yield vectors[order[at : at + BATCH_SIZE]]
        at += BATCH_SIZE

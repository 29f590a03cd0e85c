"""Reads OpenNMT-py's log lines into the points of a learning curve."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

_TRAINING = re.compile(
    r"Step\s+(?P<step>\d+)/\s*\d+; acc: (?P<accuracy>[\d.]+); "
    r"ppl:\s+(?P<perplexity>[\d.]+|nan|inf);.*?lr: (?P<rate>[\d.]+);"
    r".*?(?P<source>\d+)/\s*(?P<target>\d+) tok/s;\s+(?P<seconds>\d+) sec"
)
_VALIDATION = re.compile(r"Validation (?P<what>perplexity|accuracy): (?P<value>[\d.e+]+|nan|inf)")


@dataclass
class LearningCurve:
    """Training reports and validations of one training, over all its tries.

    The lines of a validation don't name its step. OpenNMT-py validates after each step that is a
    multiple of `valid_steps`, so the validations are counted.
    """

    valid_steps: int
    training: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    passed: int = 0  # The next validation comes after this step.

    def read_line(self, line: str) -> bool:
        """Take in one log line; true if it is a training report."""
        if match := _TRAINING.search(line):
            self.training.append(
                {
                    "step": int(match["step"]),
                    "train_perplexity": float(match["perplexity"]),
                    "train_accuracy": float(match["accuracy"]),
                    "learning_rate": float(match["rate"]),
                    "tokens_per_second": int(match["target"]),
                    "source_tokens_per_second": int(match["source"]),
                    "seconds": int(match["seconds"]),
                }
            )
            return True
        if match := _VALIDATION.search(line):
            if match["what"] == "perplexity":
                self.passed = (self.passed // self.valid_steps + 1) * self.valid_steps
                self.validation.append({"step": self.passed})
            if self.validation:
                self.validation[-1][match["what"]] = float(match["value"])
        return False

    def forget_after(self, step: int) -> None:
        """Drop what a training that is resumed after `step` will report again."""
        self.passed = step
        self.training = [point for point in self.training if point["step"] <= step]
        self.validation = [point for point in self.validation if point["step"] <= step]

    def tokens_per_second(self) -> dict[str, float | None]:
        """Median over the reports; the first one of a training includes its warm-up."""
        reports = self.training[1:] or self.training
        names = {"source": "source_tokens_per_second", "target": "tokens_per_second"}
        return {
            side: median(point[name] for point in reports) if reports else None
            for side, name in names.items()
        }

    def best_step(self, steps: Iterable[int]) -> int:
        """The one of `steps` with the lowest validation perplexity, the later of two equal ones.

        The last of them where that wasn't validated: how good it is isn't known.
        """
        newest_first = sorted(steps, reverse=True)
        perplexities = {point["step"]: point["perplexity"] for point in self.validation}
        if newest_first[0] not in perplexities:
            return newest_first[0]

        def perplexity(step: int) -> float:
            value = perplexities.get(step, math.inf)
            return math.inf if math.isnan(value) else value

        return min(newest_first, key=perplexity)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"training": self.training, "validation": self.validation}

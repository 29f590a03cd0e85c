"""Speed and memory of the language models in training, beside what bounds them.

    python benchmarks/lm.py                              on the GPU, all parts
    python benchmarks/lm.py --parts awd-lstm training    some
    python benchmarks/lm.py --minutes 2                  nothing begins after two minutes
    python benchmarks/lm.py --device cpu --small         a dry run of a minute, sizes of toys
    python benchmarks/lm.py --parts transformer-xl --profile    where the time goes

A step is what a training does: read a batch from memory, forward, backward, clip, change the
weights; as a CUDA graph where a training makes one. Texts are random, their words distributed as
words are (Zipf).

    awd-lstm        Table 1c's two models, batch 20 x 70, 10,000 words, at each precision; beside
                    them the recurrence alone, forward and backward, with cuDNN (plain nn.LSTM) and
                    as the models run it. "epoch" is Penn Treebank's 929,589 tokens.
    training        The same models in `onmt_define lm train`, Lightning's loop included: the last
                    of three epochs of 150 steps, all batches of 70.
    transformer-xl  The original base model and Table 2's, batch 60 x 150, memory 150, 267,735
                    words, compiled, in bfloat16.
    lstm            Table 1a's models with adaptive layers, batch 60 x 140, 267,735 words.

--plain adds what these came from: AWD-LSTM launched by the host and with cuDNN, Transformer-XL
without torch.compile and in TF32.

Columns: milliseconds a step (median of the rounds), tokens a second, peak memory; the classifier
alone (forward and backward) and its share of the step; "define" is what the unit adds to the step
of the same model whose input layer has no unit.

Times include launching from Python, as in a training. A row that can't run says why. The table
comes last; --output is written row by row.
"""

import argparse
import csv
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onmt_define.lm import lstm_recurrence, progress
from onmt_define.lm.batches import Batch, BpttBatches
from onmt_define.lm.graphed_gradients import GraphedGradients, Recorder, can_be_graphed
from onmt_define.lm.lstm_recurrence import RecurrentLayer
from onmt_define.lm.model import LanguageModel, build_model
from onmt_define.lm.nested import map_tensors
from onmt_define.lm.optimizing import build_optimizer, set_precision
from onmt_define.lm.paper_runs import paper_run
from onmt_define.lm.run_settings import check_run
from onmt_define.lm.training import train
from onmt_define.paper.published import find_row, merge

COLUMNS = ("part", "model", "precision", "ms", "tokens/s", "GiB", "classifier ms", "share", "more")
PTB_TOKENS = 929_589
AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}
SMALL = {
    "awd-lstm": {"hidden_size": 48, "batch_size": 4, "bptt": 12},
    "lstm": {"hidden_size": 48, "batch_size": 4, "bptt": 12},
    "transformer-xl": {"layers": 2, "inner_dim": 64, "batch_size": 4, "bptt": 12, "memory": 12},
}
SMALL_VOCABULARY = {10_000: 1_000, 267_735: 4_000}


class Training:
    """A model of a paper's row with its optimiser and text."""

    def __init__(
        self, row: str, arguments: argparse.Namespace, graphs: bool = True, **changes: Any
    ) -> None:
        texts = {"train": "-", "valid": "-", "test": "-"}
        settings = merge(paper_run(row), {**texts, **changes})
        vocabulary_size = find_row(row).settings["vocabulary_size"]
        if arguments.small:
            settings = merge(settings, SMALL[settings["model"]])
            vocabulary_size = SMALL_VOCABULARY[vocabulary_size]
            if "cutoffs" in settings["classifier"]:
                settings = merge(settings, {"classifier": {"cutoffs": [300, 600, 3000]}})
        self.settings = check_run(settings, row)
        self.device = arguments.device
        set_precision(self.settings, int(self.device == "cuda"))
        torch.manual_seed(1)
        self.model = build_model(self.settings, vocabulary_size).to(self.device)
        if self.settings.get("compile"):
            self.model.context.compile_layers()
        self.optimizer = build_optimizer(self.settings, list(self.model.parameters()))
        self.scaler = torch.amp.GradScaler(self.device, enabled=self.precision == "float16")
        self.batches = read_for_ever(self.model, self.settings, vocabulary_size)
        self.state: Any = None
        if self.settings["model"] == "transformer-xl":  # begin with a full memory, a single shape
            shape = self.settings["memory"], self.settings["batch_size"], self.settings["model_dim"]
            self.state = [torch.zeros(shape, device=self.device)] * self.settings["layers"]
        self.graphed = None
        if graphs and can_be_graphed(self.model, self.precision, 1):
            self.graphed = GraphedGradients(self.model, self.settings["gradient_clip"])
        if graphs and self.device == "cuda" and self.settings["model"] == "transformer-xl":
            self.model.context.graph_layers(self.settings["bptt"])

    @property
    def precision(self) -> str:
        return self.settings["precision"]

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.settings["batch_size"] * self.settings["bptt"]

    def autocast(self) -> Any:
        if self.precision not in AUTOCAST:
            return nullcontext()
        return torch.autocast(self.device, AUTOCAST[self.precision])

    def next_batch(self) -> Batch:
        batch = next(self.batches)
        moved = (part.to(self.device, non_blocking=True) for part in batch[:2])
        return Batch(*moved, *batch[2:])

    def step(self) -> None:
        """One step of the training."""
        batch = self.next_batch()
        if self.graphed:
            with self.autocast():
                _, self.state = self.graphed(batch, self.state)
            self.optimizer.step()
            return
        with self.autocast():
            reading = self.model(batch.inputs, batch.targets, self.state, batch.band_sizes)
            loss = reading.losses.mean() + reading.penalty
        self.state = map_tensors(Tensor.detach, reading.state)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings["gradient_clip"])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def classifier_step(self) -> Callable[[], None]:
        """Forward and backward of the classifier alone, on a batch's real targets."""
        batch, classifier = self.next_batch(), self.model.output_layer
        dim = self.settings.get("model_dim") or self.settings["map"]["dim"]
        kind = torch.float32 if self.settings["model"] == "transformer-xl" else None
        kind = kind or AUTOCAST.get(self.precision, torch.float32)
        hidden = torch.randn(*batch.targets.shape, dim, device=self.device, dtype=kind)
        hidden.requires_grad_()

        def step() -> None:
            with self.autocast():
                loss = classifier(hidden, batch.targets, batch.band_sizes).mean()
            loss.backward()
            self.optimizer.zero_grad()
            hidden.grad = None

        return step


def read_for_ever(
    model: LanguageModel, settings: dict[str, Any], vocabulary_size: int
) -> Iterator[Batch]:
    """Batches of equal length from a random text."""
    length = settings["batch_size"] * (settings["bptt"] * 8 + 1)
    ids = zipf(length, vocabulary_size)
    cutoffs = model.output_layer.cutoffs
    batches = BpttBatches(ids, settings["batch_size"], settings["bptt"], cutoffs=cutoffs)
    return itertools.chain.from_iterable(itertools.repeat(batches))


def zipf(length: int, vocabulary_size: int) -> np.ndarray:
    """Token ids of which number r is seen with probability proportional to 1 / (r + 2.7)."""
    shares = 1 / (np.arange(vocabulary_size) + 2.7)
    places = np.random.default_rng(1).random(length) * shares.sum()
    return np.searchsorted(np.cumsum(shares), places).astype(np.int32).clip(0, vocabulary_size - 1)


def milliseconds(step: Callable[[], None], device: str, rounds: int, steps: int) -> float:
    """Median over the rounds of the time of a step, with the device idle before and after."""
    for _ in range(min(5, steps)):
        step()
    times = []
    for _ in range(rounds):
        wait(device)
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait(device)
        times.append((time.perf_counter() - start) / steps * 1e3)
    return statistics.median(times)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def recurrence(training: Training, kind: type[nn.LSTM]) -> Callable[[], None]:
    """Forward and backward of the recurrent layers alone, dropout-free, on random vectors."""
    settings = training.settings
    layers = [
        kind(layer.input_size, layer.hidden_size).to(training.device)
        for layer in training.model.context.layers
    ]
    shape = settings["bptt"], settings["batch_size"], layers[0].input_size
    inputs = torch.randn(shape, device=training.device, requires_grad=True)

    def step() -> None:
        with training.autocast():
            hidden = inputs
            for layer in layers:
                hidden, _ = layer(hidden)
        hidden.float().sum().backward()
        inputs.grad = None
        for layer in layers:
            layer.zero_grad()

    return step


class Table:
    """Measures contenders and keeps their rows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.rows: list[dict[str, str]] = []
        self.end = time.monotonic() + arguments.minutes * 60
        self.rounds = 2 if arguments.small else arguments.rounds
        self.steps = 2 if arguments.small else arguments.steps

    def time(self, step: Callable[[], None]) -> float:
        return milliseconds(step, self.arguments.device, self.rounds, self.steps)

    def measure(
        self,
        part: str,
        name: str,
        row: str,
        without_unit: float | None = None,
        graphs: bool = True,
        **changes: Any,
    ) -> float | None:
        """Add the row of one training; returns the milliseconds of its step.

        Args:
            part, name: what the row is called.
            row: id of the paper's row.
            without_unit: milliseconds of the same without a unit, to compare with.
            graphs: whether its steps may be CUDA graphs.
            **changes: settings that differ from the row's.
        """
        if self.is_over(part, name, changes["precision"]):
            return None
        try:
            training = Training(row, self.arguments, graphs, **changes)
            if self.arguments.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            step = self.time(training.step)
            gib = f"{torch.cuda.max_memory_allocated() / 2**30:.1f}" if self.on_gpu else "-"
            classifier = self.time(training.classifier_step())
        except Exception as error:  # a row that can't run must not cost the others
            self.fail(part, name, changes["precision"], error)
            return None
        speed = training.tokens / step * 1e3
        more = [f"epoch {PTB_TOKENS / speed:.1f} s"] if part == "awd-lstm" else []
        if without_unit is not None:
            more.append(f"define {step / without_unit - 1:+.1%}")
        self.add(
            part,
            name,
            training.precision,
            f"{step:.2f}",
            f"{speed:,.0f}",
            gib,
            f"{classifier:.2f}",
            f"{classifier / step:.0%}",
            ", ".join(more),
        )
        if self.arguments.profile:
            profile(training)
        return step

    def measure_recurrence(self, name: str, precision: str, kind: type[nn.LSTM]) -> None:
        """Add the row of the recurrence alone."""
        if self.is_over("awd-lstm", name, precision):
            return
        try:
            training = Training("table1c/awd-lstm", self.arguments, precision=precision)
            step = self.time(recurrence(training, kind))
        except Exception as error:
            self.fail("awd-lstm", name, precision, error)
            return
        self.add_speed("awd-lstm", name, precision, training.tokens / step * 1e3, step)
        if self.on_gpu and self.arguments.plain:
            step = self.time(Recorder().record(recurrence(training, kind)))
            name = f"{name}, CUDA graph"
            self.add_speed("awd-lstm", name, precision, training.tokens / step * 1e3, step)

    def measure_training(self, name: str, row: str, precision: str, **changes: Any) -> None:
        """Add the row of the last epoch of a whole training."""
        if self.is_over("training", name, precision):
            return
        settings = Training(row, self.arguments, precision=precision, **changes).settings
        tokens = settings["batch_size"] * settings["bptt"]
        try:
            with tempfile.TemporaryDirectory() as folder:
                speed = train_for_speed(settings, Path(folder), int(self.on_gpu))
        except Exception as error:
            self.fail("training", name, precision, error)
            return
        self.add_speed("training", name, precision, speed, tokens / speed * 1e3)

    def add_speed(self, part: str, name: str, precision: str, speed: float, step: float) -> None:
        epoch = f"epoch {PTB_TOKENS / speed:.1f} s"
        self.add(part, name, precision, f"{step:.2f}", f"{speed:,.0f}", "-", "-", "-", epoch)

    def is_over(self, *names: str) -> bool:
        """Whether time is up, which is then said of a row."""
        if time.monotonic() < self.end:
            return False
        self.add(*names, "-", "-", "-", "-", "-", "no time left")
        return True

    @property
    def on_gpu(self) -> bool:
        return self.arguments.device == "cuda"

    def fail(self, part: str, name: str, precision: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
        self.add(part, name, precision, "-", "-", "-", "-", "-", reason)

    def add(self, *cells: str) -> None:
        self.rows.append(dict(zip(COLUMNS, cells, strict=True)))
        print("  ".join(cells), file=sys.stderr, flush=True)
        if self.arguments.output:
            with open(self.arguments.output, "a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(cells)

    def print(self) -> None:
        """The table in Markdown."""
        print(f"| {' | '.join(COLUMNS)} |")
        print(f"|{'---|' * 3}{'---:|' * 5}---|")
        for row in self.rows:
            print(f"| {' | '.join(row.values())} |")


def profile(training: Training) -> None:
    """Print which operations a step's time goes to."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if training.device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(3):
            training.step()
        wait(training.device)
    key = "self_cuda_time_total" if training.device == "cuda" else "self_cpu_time_total"
    print(profiler.key_averages().table(sort_by=key, row_limit=25), file=sys.stderr)


def train_for_speed(settings: dict[str, Any], folder: Path, gpus: int) -> float:
    """Tokens a second of the last epoch of a training on a random text."""
    epochs, steps = 3, 150 if gpus else 10
    length = settings["batch_size"] * (settings["bptt"] * steps + 1)
    words = [f"w{number}" for number in zipf(length * 20 // 21, 9_990)]  # <eos> is a token too
    lines = [" ".join(words[start : start + 20]) for start in range(0, len(words), 20)]
    for split, count in (("train", None), ("valid", 200), ("test", 200)):
        (folder / f"{split}.txt").write_text("\n".join(lines[:count]) + "\n", "utf-8")
        settings = {**settings, split: str(folder / f"{split}.txt")}
    settings |= {"epochs": epochs, "random_bptt": False, "corpus": "zipf", "run": "speed"}
    # A long training looks at its loss as rarely.
    progress.CURVE_POINTS = epochs
    train(settings, folder / "output", gpus)
    record = json.loads((folder / "output" / "record.json").read_text("utf-8"))
    return record["learning_curve"][-1]["tokens_per_second"]


PROJECTIVE = {"map": {"type": "projective", "output_dim": 400}, "unit": None}


def measure_awd_lstm(table: Table) -> None:
    for precision in table.arguments.precisions:
        table.measure_recurrence("recurrence alone, cuDNN", precision, nn.LSTM)
        table.measure_recurrence("recurrence alone", precision, RecurrentLayer)
    if table.arguments.plain:
        measure_plain_awd_lstm(table)
    for precision in table.arguments.precisions:
        table.measure("awd-lstm", "AWD-LSTM", "table1c/awd-lstm", precision=precision)
        row = "table1c/awd-lstm-define"
        bare = table.measure("awd-lstm", "projective 128", row, precision=precision, **PROJECTIVE)
        table.measure("awd-lstm", "DeFINE 128", row, bare, precision=precision)


def measure_plain_awd_lstm(table: Table) -> None:
    """The same steps launched by the host, with our recurrence and with cuDNN's."""
    for most_streams, note in ((lstm_recurrence.MOST_STREAMS, ""), (0, ", cuDNN")):
        lstm_recurrence.MOST_STREAMS, before = most_streams, lstm_recurrence.MOST_STREAMS
        for precision in table.arguments.precisions:
            for name, row in (("AWD-LSTM", "awd-lstm"), ("DeFINE 128", "awd-lstm-define")):
                name = f"{name}{note}, launched by the host"
                table.measure("awd-lstm", name, f"table1c/{row}", graphs=False, precision=precision)
        lstm_recurrence.MOST_STREAMS = before


def measure_training(table: Table) -> None:
    for precision in table.arguments.precisions:
        table.measure_training("AWD-LSTM", "table1c/awd-lstm", precision)
        row = "table1c/awd-lstm-define"
        table.measure_training("projective 128", row, precision, **PROJECTIVE)
        table.measure_training("DeFINE 128", row, precision)


def measure_transformer_xl(table: Table) -> None:
    plain = table.arguments.plain
    ways = [("bfloat16", True), *[("tf32", True), ("bfloat16", False), ("tf32", False)] * plain]
    for precision, compiled in ways:
        changes = {"precision": precision, "compile": compiled}
        note = ", compiled" if compiled else ""
        table.measure("transformer-xl", f"base 410{note}", "table2a/standard-410", **changes)
    for compiled, width in itertools.product((True, False) if plain else (True,), (384, 128)):
        changes = {"precision": "bfloat16", "compile": compiled}
        note = f" {width}{', compiled' if compiled else ''}"
        kind = "standard" if width == 384 else "projective"
        bare = table.measure(
            "transformer-xl", f"{kind}{note}", f"table2a/{kind}-{width}", **changes
        )
        table.measure("transformer-xl", f"DeFINE{note}", f"table2a/define-{width}", bare, **changes)


def measure_lstm(table: Table) -> None:
    for precision in table.arguments.precisions:
        for row in ("R3", "R4", "R5"):
            changes = {"precision": precision}
            name = f"table1a/{row}"
            bare = table.measure("lstm", f"{name} without unit", name, unit=None, **changes)
            table.measure("lstm", f"{name} DeFINE", name, bare, **changes)


PARTS = {
    "awd-lstm": measure_awd_lstm,
    "training": measure_training,
    "transformer-xl": measure_transformer_xl,
    "lstm": measure_lstm,
}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    precisions = ["float32", "tf32", "bfloat16", "float16"]
    parser.add_argument("--device", choices=("cuda", "cpu"), default=device)
    parser.add_argument("--small", action="store_true", help="toy sizes, for a dry run")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--precisions", nargs="+", choices=precisions, default=["tf32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="steps of a round")
    parser.add_argument("--threads", type=int, default=1, help="threads on the CPU")
    parser.add_argument("--minutes", type=float, default=60, help="after which no row begins")
    parser.add_argument("--plain", action="store_true", help="also what trainings leave behind")
    parser.add_argument("--profile", action="store_true", help="print where each row's time goes")
    parser.add_argument("--output", type=Path, help="CSV file to write")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.output:
        arguments.output.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    table = Table(arguments)
    for part in arguments.parts:
        PARTS[part](table)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {arguments.threads} threads"
    print(f"\n{name}, torch {torch.__version__}\n")
    table.print()


if __name__ == "__main__":
    main()

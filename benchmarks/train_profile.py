#!/usr/bin/env python
"""What the GPU does during a training step, as a picture: OpenNMT-py's loop and the packed loop.

Example, one GPU:

    python benchmarks/train_profile.py --output training_step.svg

Trains as benchmarks/train.py does and takes its options, each contender until torch's profiler has
recorded PROFILED optimizer steps late in the training. For every moment of one step the picture
shows which part of the time the GPU worked, and on what; what is white it waited. The same in
milliseconds a step is printed and stands in a CSV file beside the picture. Without a GPU it is the
operations on the CPU.
"""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tables
import torch
import train
import yaml
from matplotlib.figure import Figure

from onmt_define.report.figures import COLORS, Picture, write_picture

PROFILED = 5
COLUMNS = ("contender", "what", "ms a step", "share")
# By the name of the kernel, the first that fits.
KINDS = {
    "attention": r"attention|flash|fmha|flex",
    "matrix products": r"gemm|nvjet|cutlass|cublas|splitk|_mm|mmback|::mm|addmm|bmm|linear",
    "softmax and loss": r"softmax|cross_entropy|nll|logsumexp",
    "optimizer": r"adam|multi_tensor|foreach",
    "copies": r"memcpy|memset|copy_|::copy",
    "norms, dropout and the rest": "",
}
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
PARTS_OF_A_STEP = 200  # of the picture, from left to right


class Work(NamedTuple):
    """Something the device did, in microseconds."""

    start: float
    end: float
    kind: str


class Recorder:
    """Called after each optimizer step; ends the process when enough is recorded."""

    def __init__(self, first: int, trace: Path, on_gpu: bool) -> None:
        self.first, self.trace, self.on_gpu, self.steps = first, trace, on_gpu, 0
        activity = torch.profiler.ProfilerActivity
        # The host's own operations aren't recorded on a GPU: that would slow it down.
        kind = activity.CUDA if on_gpu else activity.CPU
        self.profiler = torch.profiler.profile(activities=[kind])

    def __call__(self, *_: Any) -> None:
        self.steps += 1
        if self.steps == self.first:
            self.profiler.start()
        if self.steps == self.first + PROFILED:
            if self.on_gpu:
                torch.cuda.synchronize()
            self.profiler.stop()
            self.profiler.export_chrome_trace(str(self.trace))
            # Processes that read for OpenNMT-py's loop would keep the output open.
            for child in multiprocessing.active_children():
                child.kill()
            os._exit(0)


def train_here(first: str, gpus: str, trace: str, config: str) -> None:
    """Be onmt_train until enough is recorded."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    import onmt_define.opennmt.startup  # noqa: F401

    register_optimizer_step_post_hook(Recorder(int(first), Path(trace), gpus != "0"))
    from onmt.bin.train import main as onmt_train

    sys.argv = ["onmt_train", "-config", config]
    onmt_train()


def record(name: str, arguments: Namespace, text: dict[str, Path], folder: Path) -> list[Work]:
    """Train one contender; what the device did in the recorded steps."""
    config, trace = folder / "train.yaml", folder / "trace.json"
    options = train.configuration(name, arguments, text, folder)
    config.write_text(yaml.safe_dump(options), "utf-8")
    first = options["train_steps"] - PROFILED - 1
    inside = ("--inside", first, arguments.gpus, trace, config)
    command = [sys.executable, __file__, *map(str, inside)]
    trace.unlink(missing_ok=True)
    result = subprocess.run(command, capture_output=True, text=True)
    if not trace.exists():
        sys.exit(f"{name} failed:\n{(result.stdout + result.stderr)[-2000:]}")
    events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    categories = GPU_CATEGORIES if arguments.gpus else ("cpu_op",)
    work = [event for event in events if event.get("cat") in categories]
    work = work if arguments.gpus else _outermost(work)
    return sorted(
        Work(event["ts"], event["ts"] + event["dur"], kind_of(event["name"])) for event in work
    )


def _outermost(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Operations of each thread that no other has called."""
    kept, ends = [], dict.fromkeys((event["tid"] for event in events), 0.0)
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        if event["ts"] >= ends[event["tid"]]:
            kept.append(event)
            ends[event["tid"]] = event["ts"] + event["dur"]
    return kept


def kind_of(name: str) -> str:
    """What a kernel is for, going by its name."""
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, name.lower()))


def busy(work: list[Work], kind: str, parts: np.ndarray) -> np.ndarray:
    """Share of each part of the time, given by its bounds, spent on `kind`."""
    done = np.zeros(len(parts) - 1)
    for start, end, its_kind in work:
        if its_kind == kind:
            done += np.clip(np.minimum(end, parts[1:]) - np.maximum(start, parts[:-1]), 0, None)
    return done / np.diff(parts)


def draw(recorded: dict[str, list[Work]]) -> Figure:
    """A strip for each contender: one step, from left to right."""
    figure = Figure(figsize=(7, 1 + 1.3 * len(recorded)), layout="constrained")
    for row, (name, work) in enumerate(recorded.items(), start=1):
        axes = figure.add_subplot(len(recorded), 1, row)
        begin, step = work[0].start, length_of_step(work)
        parts = np.linspace(begin, begin + step, PARTS_OF_A_STEP + 1)
        shares = [busy(work, kind, parts) for kind in KINDS]
        axes.stackplot(
            (parts[:-1] - begin) / 1000, shares, labels=list(KINDS), colors=COLORS[1:], step="post"
        )
        axes.set(xlim=(0, step / 1000), ylim=(0, 1), yticks=[0, 1], yticklabels=["0", "100 %"])
        axes.set_title(f"{name}: {step / 1000:,.0f} ms a step", loc="left", fontsize="medium")
    axes.set_xlabel("milliseconds")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return figure


def length_of_step(work: list[Work]) -> float:
    return (max(each.end for each in work) - work[0].start) / PROFILED


def rows_of(name: str, work: list[Work]) -> list[dict[str, str]]:
    """Milliseconds a step for each kind of work, and without any."""
    step = length_of_step(work) / 1000
    spent = dict.fromkeys(KINDS, 0.0)
    for start, end, kind in work:
        spent[kind] += (end - start) / 1000 / PROFILED
    # Some kernels run side by side.
    spent["waiting"] = max(0.0, step - sum(spent.values()))
    return [
        dict(zip(COLUMNS, (name, kind, f"{ms:.2f}", f"{ms / step:.1%}"), strict=True))
        for kind, ms in {**spent, "all of it": step}.items()
    ]


def main() -> None:
    """Train with every contender, draw the picture and write the table."""
    if sys.argv[1:2] == ["--inside"]:
        train_here(*sys.argv[2:])
        return
    arguments = train.parse_arguments(__doc__, "training_step.svg")
    arguments.gpus = min(arguments.gpus, 1)  # the processes of several can't be looked into
    output = Path(arguments.output)
    with tempfile.TemporaryDirectory() as folder:
        text = train.make_text(arguments, Path(folder))
        recorded = {
            name: record(name, arguments, text, Path(folder)) for name in arguments.contenders
        }
    write_picture(Picture(output.stem, "", "", lambda: draw(recorded)), output.parent)
    rows = [row for name, work in recorded.items() for row in rows_of(name, work)]
    tables.write(output.with_suffix(".csv"), COLUMNS, rows)


if __name__ == "__main__":
    main()

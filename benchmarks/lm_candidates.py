"""Which way to a faster AWD-LSTM and Transformer-XL is worth keeping: all candidates side by side.

    python benchmarks/lm_candidates.py                             all parts, on one or two GPUs
    python benchmarks/lm_candidates.py --parts kernels             some
    python benchmarks/lm_candidates.py --device cpu --small        a dry run

Each part is a process of its own, so that one that crashes or hangs costs its own rows alone; with
two GPUs two parts run side by side. The table comes last; --output gets the same as CSV.

    cudnn        three LSTM layers 400-1150-1150-400, batch 20 x 70, forward and backward: cuDNN
                 launched from Python, in a CUDA graph, with widths padded to multiples of 64
    kernels      the same with onmt_define/lm/lstm_kernels.py, beside the error of its results
    tuning       one layer of 1150 with other constants of the kernels
    awd-lstm     whole steps of Table 1c's models, with cuDNN and the kernels, as in a training and
                 as one CUDA graph (what the card needs when nothing waits for Python)
    embedding    ways to run the DeFINE layer within such a step
    training     `onmt_define lm train` for two epochs, Lightning included
    wavefront    cuDNN's layers on three streams, in chunks, in a CUDA graph
    attention    one Transformer-XL layer, compiled, in a CUDA graph
    classifier   the adaptive softmax of 267,735 words
    xl           whole steps of Transformer-XL base
    xl-define    whole steps of Table 2's models without and with DeFINE
"""

# ruff: noqa: B023 - what is defined in a loop here is called at once

import argparse
import csv
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import lm as benchmark
import torch
from torch import Tensor, nn
from torch.nn import functional

from onmt_define.lm import classifiers, lstm_recurrence
from onmt_define.lm.nested import map_tensors
from onmt_define.lm.transformer_xl import TransformerXlContext, TransformerXlLayer, relative_shift

# The parts that a GPU of two works through.
SIDES = [
    ["kernels", "awd-lstm", "training", "embedding", "tuning", "cudnn", "wavefront"],
    ["xl", "attention", "classifier", "xl-define"],
]
SCRIPT = Path(__file__).parents[1] / "scripts" / "train_language_model.py"
COLUMNS = ("part", "what", "precision", "ms", "more")
DTYPES = {"tf32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Rows:
    """Rows of one part, appended to a CSV file as they are measured."""

    def __init__(self, part: str, arguments: argparse.Namespace) -> None:
        self.part, self.arguments = part, arguments
        self.on_gpu = arguments.device == "cuda"

    def add(self, what: str, precision: str, ms: float | None, more: str = "") -> None:
        row = self.part, what, precision, "-" if ms is None else f"{ms:.3f}", more
        with open(self.arguments.output, "a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(row)

    def measure(self, what: str, precision: str, make: Callable[[], Any], steps: int = 10) -> None:
        """Time what `make` gives: a step, or a step and a remark."""
        try:
            made = make()
            step, more = made if isinstance(made, tuple) else (made, "")
            ms = benchmark.milliseconds(step, self.arguments.device, 3, steps)
            self.add(what, precision, ms, more)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            self.add(what, precision, None, f"{type(error).__name__}: {lines[0][:120]}")


def graphed(step: Callable[[], Any]) -> Callable[[], None]:
    """The same step as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Have another value in its place meanwhile."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def set_products(precision: str) -> Any:
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    enabled = precision != "tf32"
    dtype = DTYPES[precision] if enabled else torch.bfloat16
    return torch.autocast("cuda", dtype, enabled=enabled, cache_enabled=False)


# The recurrence alone.


class Layers:
    """Three layers and a batch, forward and backward."""

    def __init__(self, rows: Rows, precision: str, widths: list[int] | None = None) -> None:
        small = rows.arguments.small
        self.widths = widths or ([16, 32, 32, 16] if small else [400, 1150, 1150, 400])
        self.time, self.batch = (6, 4) if small else (70, 20)
        self.precision, device = precision, rows.arguments.device
        torch.manual_seed(0)
        sizes = zip(self.widths, self.widths[1:], strict=False)
        self.layers = [lstm_recurrence.RecurrentLayer(*pair).to(device) for pair in sizes]
        self.inputs = torch.randn(self.time, self.batch, self.widths[0], device=device) * 0.3
        self.inputs.requires_grad_()
        self.direction = torch.randn(self.time, self.batch, self.widths[-1], device=device)
        self.autocast = set_products(precision)

    def step(self) -> Tensor:
        for parameter in [self.inputs, *self.parameters()]:
            parameter.grad = None
        with self.autocast:
            hidden = self.inputs
            for layer in self.layers:
                hidden, _ = layer(hidden)
        hidden.backward(self.direction.to(hidden.dtype))
        return hidden

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for layer in self.layers for parameter in layer.parameters()]

    def results(self) -> list[Tensor]:
        output = self.step()
        return [part.detach().double() for part in (output, self.inputs.grad)] + [
            parameter.grad.double() for parameter in self.parameters()
        ]

    def exact(self) -> list[Tensor]:
        """The results in double precision, from torch's own layers on the CPU."""
        layers = [layer.double().cpu() for layer in self.layers]
        inputs = self.inputs.detach().double().cpu().requires_grad_()
        hidden = inputs
        for layer in layers:
            hidden, _ = nn.LSTM.forward(layer, hidden)
        hidden.backward(self.direction.double().cpu())
        gradients = [parameter.grad for layer in layers for parameter in layer.parameters()]
        return [hidden.detach(), inputs.grad, *gradients]


def errors(ours: list[Tensor], exact: list[Tensor]) -> str:
    """Largest relative error of the output, and of the gradients."""
    ratios = [((a.cpu() - b).norm() / b.norm()).item() for a, b in zip(ours, exact, strict=True)]
    return f"error: output {ratios[0]:.1e}, gradients up to {max(ratios[1:]):.1e}"


def without_kernels() -> Any:
    return replaced(lstm_recurrence, "can_use_kernels", lambda *_: False)


def measure_cudnn(rows: Rows) -> None:
    padded = [16, 64, 64, 16] if rows.arguments.small else [448, 1152, 1152, 448]
    with without_kernels():
        for precision in DTYPES:
            exact = Layers(rows, precision).exact()
            layers = Layers(rows, precision)
            rows.measure("cuDNN", precision, lambda: (layers.step, errors(layers.results(), exact)))
            rows.measure("cuDNN, graph", precision, lambda: graphed(Layers(rows, precision).step))
            rows.measure(
                "cuDNN, padded, graph",
                precision,
                lambda: graphed(Layers(rows, precision, padded).step),
            )


def measure_kernels(rows: Rows) -> None:
    for precision in DTYPES:
        exact = Layers(rows, precision).exact()
        layers = Layers(rows, precision)
        rows.measure("kernels", precision, lambda: (layers.step, errors(layers.results(), exact)))
        rows.measure("kernels, graph", precision, lambda: graphed(Layers(rows, precision).step))
    kernels = lstm_recurrence.lstm_kernels
    if kernels is None:
        return
    stepwise = {
        name: functools.partial(getattr(kernels, name), steps_at_once=1)
        for name in ("forward", "backward")
    }
    with (
        replaced(kernels, "forward", stepwise["forward"]),
        replaced(kernels, "backward", stepwise["backward"]),
    ):
        for precision in ("tf32", "bfloat16"):
            rows.measure(
                "kernels, a launch a step, graph",
                precision,
                lambda: graphed(Layers(rows, precision).step),
            )
    # The LSTM of Table 1a.
    for name, way in (("kernels", nullcontext()), ("cuDNN", without_kernels())):
        with way:
            layers = Layers(rows, "bfloat16", [384, 1024, 1024, 1024, 384])
            layers.batch, layers.time = 60, 140
            layers.inputs = torch.randn(140, 60, 384, device=rows.arguments.device)
            layers.inputs.requires_grad_()
            layers.direction = torch.randn_like(layers.inputs)
            rows.measure(f"Table 1a, {name}", "bfloat16", lambda: layers.step, 5)


def measure_tuning(rows: Rows) -> None:
    kernels = lstm_recurrence.lstm_kernels
    if kernels is None:
        return
    for precision in ("tf32", "bfloat16"):
        for k_block, stages, warps in (
            *((64, 4, 4), (64, 2, 4), (64, 6, 4), (128, 2, 4), (128, 3, 4)),
        ):
            with (
                replaced(kernels, "K_BLOCK", k_block),
                replaced(kernels, "STAGES", stages),
                replaced(kernels, "WARPS", warps),
            ):
                name = f"block {k_block}, stages {stages}, warps {warps}"
                rows.measure(
                    name, precision, lambda: graphed(Layers(rows, precision, [1150, 1150]).step)
                )


def measure_wavefront(rows: Rows) -> None:
    with without_kernels():
        for precision, chunks in (("bfloat16", 5), ("bfloat16", 10), ("tf32", 5)):
            rows.measure(
                f"cuDNN, wavefront of {chunks} chunks, graph",
                precision,
                lambda: graphed(wavefront_step(Layers(rows, precision), chunks)),
            )


def wavefront_step(layers: Layers, chunks: int) -> Callable[[], None]:
    """Layer 2 reads a chunk of the sequence while layer 1 computes the next one."""
    streams = [torch.cuda.Stream() for _ in layers.layers]

    def step() -> None:
        main = torch.cuda.current_stream()
        for parameter in [layers.inputs, *layers.parameters()]:
            parameter.grad = None
        for stream in streams:
            stream.wait_stream(main)
        outputs, states = [], [None] * len(streams)
        for chunk in layers.inputs.chunk(chunks):
            hidden = chunk
            for index, (layer, stream) in enumerate(zip(layers.layers, streams, strict=True)):
                if index:
                    stream.wait_stream(streams[index - 1])
                with torch.cuda.stream(stream), layers.autocast:
                    hidden, states[index] = layer(hidden, states[index])
            outputs.append(hidden)
        for stream in streams:
            main.wait_stream(stream)
        output = torch.cat(outputs)
        output.backward(layers.direction.to(output.dtype))
        for stream in streams:
            main.wait_stream(stream)

    return step


# Whole steps of AWD-LSTM.

PROJECTIVE = {"map": {"type": "projective", "output_dim": 400}, "unit": None}
MODELS = {
    "AWD-LSTM": ("table1c/awd-lstm", {}),
    "projective": ("table1c/awd-lstm-define", PROJECTIVE),
    "DeFINE": ("table1c/awd-lstm-define", {}),
}


def fixed_step(training: benchmark.Training, cache: bool = True) -> Callable[[], None]:
    """A step on always the same batch and state, which a CUDA graph can hold."""
    batch = training.next_batch()
    precision = training.precision

    def step() -> None:
        training.optimizer.zero_grad()
        dtype = benchmark.AUTOCAST.get(precision)
        with torch.autocast(
            training.device, dtype or torch.bfloat16, enabled=dtype is not None, cache_enabled=cache
        ):
            reading = training.model(batch.inputs, batch.targets, state, batch.band_sizes)
            loss = reading.losses.mean() + reading.penalty
        loss.backward()
        clip = training.settings["gradient_clip"]
        nn.utils.clip_grad_norm_(training.model.parameters(), clip)
        training.optimizer.step()

    with training.autocast(), torch.no_grad():
        reading = training.model(batch.inputs, batch.targets, None, batch.band_sizes)
    state = map_tensors(torch.clone, reading.state)
    return step


def measure_awd_lstm(rows: Rows) -> None:
    for precision in ("tf32", "bfloat16"):
        for way in ("kernels", "cuDNN"):
            for name, (row, changes) in MODELS.items():
                with without_kernels() if way == "cuDNN" else nullcontext():
                    training = functools.partial(
                        benchmark.Training, row, rows.arguments, precision=precision, **changes
                    )
                    what = f"{name}, {way}"
                    rows.measure(what, precision, lambda: training().step, 20)
                    rows.measure(
                        f"{what}, graph",
                        precision,
                        lambda: graphed(fixed_step(training(), cache=False)),
                        20,
                    )


def measure_embedding(rows: Rows) -> None:
    """The DeFINE layer in the step of an AWD-LSTM, from Python."""
    row, changes = MODELS["projective"]
    ways = {"none": None, "as it is": lambda layer, _: layer}
    ways |= {"graph of the batch": graphed_layer, "graph of the vocabulary": graphed_vocabulary}
    ways |= {"compiled": compiled_layer}
    for precision in ("tf32",):
        for name, way in ways.items():

            def make(way: Any = way, precision: str = precision) -> Callable[[], None]:
                if way is None:
                    return benchmark.Training(
                        row, rows.arguments, precision=precision, **changes
                    ).step
                training = benchmark.Training(row, rows.arguments, precision=precision)
                layer = training.model.input_layer
                tokens = training.next_batch().inputs
                with training.autocast():
                    training.model.input_layer = way(layer, tokens)
                return training.step

            rows.measure(name, precision, make, 20)


class Wrapped(nn.Module):
    """A function of tokens beside the layer whose weights it uses."""

    def __init__(self, layer: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = layer, [function]
        self.num_embeddings = layer.num_embeddings

    def forward(self, tokens: Tensor) -> Tensor:
        return self.function[0](tokens)


def compiled_layer(layer: nn.Module, _: Tensor) -> nn.Module:
    return Wrapped(layer, torch.compile(layer, dynamic=False))


class OfTokens(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, tokens: Tensor) -> Tensor:
        return self.layer._compute_each(tokens)


def graphed_layer(layer: nn.Module, tokens: Tensor) -> nn.Module:
    with torch.autocast(
        "cuda",
        torch.get_autocast_dtype("cuda"),
        enabled=torch.is_autocast_enabled("cuda"),
        cache_enabled=False,
    ):
        return Wrapped(layer, torch.cuda.make_graphed_callables(OfTokens(layer), (tokens,)))


def graphed_vocabulary(layer: nn.Module, tokens: Tensor) -> nn.Module:
    everything = torch.arange(layer.num_embeddings, device=tokens.device)
    graph = graphed_layer(layer, everything)
    return Wrapped(layer, lambda ids: functional.embedding(ids, graph(everything)))


def measure_training(rows: Rows) -> None:
    """Two epochs of the command; the seconds are those of the second, validation left out."""
    small = rows.arguments.small
    ids = benchmark.zipf(20_000 if small else 300_000, 300 if small else 9_990)
    precisions = ("float32",) if rows.arguments.device == "cpu" else ("tf32", "bfloat16")
    with tempfile.TemporaryDirectory() as folder:
        words = [f"w{number}" for number in ids]
        lines = [" ".join(words[place : place + 21]) for place in range(0, len(words), 21)]
        for split, count in (("train", None), ("valid", 200), ("test", 200)):
            Path(folder, f"{split}.txt").write_text("\n".join(lines[:count]) + "\n", "utf-8")
        for precision in precisions:
            for row in ("table1c/awd-lstm", "table1c/awd-lstm-define"):
                train_by_command(rows, Path(folder), row, precision)


def train_by_command(rows: Rows, folder: Path, row: str, precision: str) -> None:
    changes = {"epochs": 2, "precision": precision, "corpus": "zipf"}
    if rows.arguments.small:
        changes |= {"hidden_size": 24}
    Path(folder, "run.yaml").write_text(json.dumps(changes))
    output = folder / f"{row.partition('/')[2]}-{precision}"
    gpus = str(int(rows.on_gpu))
    command = [sys.executable, str(SCRIPT), "--paper", row]
    command += ["--config", str(folder / "run.yaml"), "--texts", str(folder)]
    command += ["--output", str(output), "--gpus", gpus]
    result = subprocess.run(command, capture_output=True, text=True)
    try:
        record = json.loads((output / "record.json").read_text())
    except OSError:
        rows.add(row, precision, None, result.stderr.strip()[-150:].replace("\n", " "))
        return
    speed = record["tokens_per_second"]
    curve = [round(point["perplexity"]) for point in record["validation"]]
    rows.add(
        row,
        precision,
        1_400 / speed * 1e3,
        f"epoch {benchmark.PTB_TOKENS / speed:.2f} s, of Lightning too; perplexity {curve}",
    )


# Transformer-XL.


def attend_by_head(self: TransformerXlLayer, *arguments: Tensor) -> Tensor:
    """Positions against all streams' queries of a head in one product."""
    query, key, value, by_distance, hides, biases = parts_of(self, *arguments)
    scores = (query + biases[0]) @ key.transpose(-1, -2) + by_distance
    scores = (scores * self.head_dim**-0.5).masked_fill(hides, -torch.inf)
    weights = scores.softmax(-1, dtype=scores.dtype)
    return finish(self, weights @ value)


def attend_sdpa(self: TransformerXlLayer, *arguments: Tensor) -> Tensor:
    """torch's own attention with the positions' scores as a bias."""
    query, key, value, by_distance, hides, biases = parts_of(self, *arguments)
    bias = (by_distance * self.head_dim**-0.5).masked_fill(hides, -torch.inf)
    query = (query + biases[0]).to(value.dtype)
    attended = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=bias.to(value.dtype), scale=self.head_dim**-0.5
    )
    return finish(self, attended)


def attend_flex(self: TransformerXlLayer, *arguments: Tensor) -> Tensor:
    """FlexAttention that reads the positions' scores unshifted."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value, by_distance, _, biases = parts_of(self, *arguments, shift=False)
    time, length = by_distance.shape[-2:]

    def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        column = torch.clamp(time - 1 - i + j, 0, length - 1)
        return value + by_distance[b, h, i, column] * self.head_dim**-0.5

    def mask(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i + (length - time)

    blocks = create_block_mask(mask, None, None, time, length, device=query.device)
    query = (query + biases[0]).to(value.dtype)
    padded = [functional.pad(part, (0, 64 - part.shape[-1])) for part in (query, key, value)]
    attended = flex_attention(*padded, score, block_mask=blocks, scale=self.head_dim**-0.5)
    return finish(self, attended)


def parts_of(
    self: TransformerXlLayer,
    hidden: Tensor,
    memory: Tensor,
    positions: Tensor,
    hides: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
    shift: bool = True,
) -> tuple[Any, ...]:
    """What attention needs, the positions' scores from one product for each head."""
    key, value = self.key_value(torch.cat([memory, hidden])).chunk(2, -1)
    query, key, value = (self._by_head(part) for part in (self.query(hidden), key, value))
    distance = self._by_head(self.position(positions).unsqueeze(1))[0]
    biases = [self._aligned(bias)[:, None] for bias in (content_bias, position_bias)]
    batch, heads, time, width = query.shape
    rows = (query + biases[1]).transpose(0, 1).reshape(heads, batch * time, width)
    by_distance = rows.to(distance.dtype) @ distance.transpose(-1, -2)
    by_distance = by_distance.view(heads, batch, time, -1).transpose(0, 1)
    if shift:
        by_distance = relative_shift(by_distance.contiguous())
    return query, key, value, by_distance, hides, biases


def finish(self: TransformerXlLayer, attended: Tensor) -> Tensor:
    return self.output(attended[..., : self.head_dim].permute(2, 0, 1, 3).flatten(2))


ATTENTIONS = {
    "as it is": TransformerXlLayer.attend,
    "positions by head": attend_by_head,
    "SDPA with bias": attend_sdpa,
    "flex_attention": attend_flex,
}


def measure_attention(rows: Rows) -> None:
    """One layer, forward and backward, in bfloat16."""
    device, small = rows.arguments.device, rows.arguments.small
    sizes = (24, 48, 2, 9) if small else (410, 2100, 10, 41)
    time, batch = (10, 2) if small else (150, 60)
    torch.manual_seed(0)
    context = TransformerXlContext(*sizes, 1, time, 0.1).to(device).train()
    inputs, memory = (torch.randn(time, batch, sizes[0], device=device) for _ in range(2))
    inputs.requires_grad_()
    positions = context.positions(2 * time, inputs)
    hides = context.hides(time, 2 * time, inputs.device)
    direction = torch.randn_like(inputs)
    expected = None
    for name, attend in ATTENTIONS.items():

        def make(attend: Any = attend) -> tuple[Callable[[], Any], str]:
            layer = context.layers[0]
            layer.attend = attend.__get__(layer)
            torch._dynamo.reset()
            function = torch.compile(layer.forward, dynamic=False)

            def step() -> Tensor:
                for parameter in context.parameters():
                    parameter.grad = None
                with torch.autocast(device, torch.bfloat16, cache_enabled=False):
                    result = function(
                        *(inputs, memory, positions, hides),
                        *(context.content_bias, context.position_bias),
                    )
                result.backward(direction)
                return result

            nonlocal expected
            layer.dropout.p = 0.0
            found = [step().detach(), *(p.grad.clone() for p in context.parameters())]
            expected = expected or found
            pairs = zip(found, expected, strict=True)
            worst = max(((a - b).norm() / b.norm()).item() for a, b in pairs)
            layer.dropout.p = 0.1
            torch._dynamo.reset()
            return (graphed(step) if rows.on_gpu else step), f"differs by {worst:.1e}"

        rows.measure(name, "bfloat16", make)


def compiled_losses(by_band: bool = False) -> Callable[..., Tensor]:
    """Cross-entropy that keeps 16-bit logits and goes through them as few times as it can.

    With `by_band` each band's width has kernels of its own.
    """

    def losses(logits: Tensor, targets: Tensor, reduction: str) -> Tensor:
        return cross_entropy(logits.float(), targets, reduction=reduction)

    cross_entropy = functional.cross_entropy
    compiled = torch.compile(losses, dynamic=not by_band)

    def call(logits: Tensor, targets: Tensor, reduction: str) -> Tensor:
        if by_band:
            torch._dynamo.mark_dynamic(logits, 0)
            torch._dynamo.mark_dynamic(targets, 0)
        with torch.autocast(logits.device.type, enabled=False):
            return compiled(logits, targets, reduction)

    return call


class Functional:
    """torch.nn.functional with another cross-entropy."""

    def __init__(self, cross_entropy: Callable[..., Tensor]) -> None:
        self.cross_entropy = cross_entropy

    def __getattr__(self, name: str) -> Any:
        return getattr(functional, name)


def with_compiled_losses(by_band: bool = False) -> Any:
    return replaced(classifiers, "functional", Functional(compiled_losses(by_band)))


BASE = {"precision": "bfloat16"}


def measure_classifier(rows: Rows) -> None:
    training = benchmark.Training("table2a/standard-410", rows.arguments, **BASE)
    rows.measure("as it is", "bfloat16", training.classifier_step)
    with with_compiled_losses():
        rows.measure("compiled losses", "bfloat16", training.classifier_step)
    torch._dynamo.reset()
    with with_compiled_losses(by_band=True):
        rows.measure("compiled losses by band", "bfloat16", training.classifier_step)


def measure_xl(rows: Rows) -> None:
    def make(compile_layers: Callable[[Any], None]) -> Callable[[], None]:
        torch._dynamo.reset()
        training = benchmark.Training("table2a/standard-410", rows.arguments, **BASE)
        compile_layers(training.model.context)
        return training.step

    def plainly(context: Any) -> None:
        context.compile_layers()

    def with_graphs(context: Any) -> None:
        for layer in context.layers:
            layer.compile(dynamic=False, mode="reduce-overhead")

    rows.measure("as it is", "bfloat16", lambda: make(plainly))
    with with_compiled_losses():
        rows.measure("compiled losses", "bfloat16", lambda: make(plainly))
        for name in ("positions by head", "SDPA with bias"):
            with replaced(TransformerXlLayer, "attend", ATTENTIONS[name]):
                rows.measure(f"compiled losses, {name}", "bfloat16", lambda: make(plainly))
                if rows.on_gpu and name == "positions by head":
                    profile(rows, make(plainly))
        rows.measure("compiled losses, reduce-overhead", "bfloat16", lambda: make(with_graphs))


def profile(rows: Rows, step: Callable[[], None]) -> None:
    """Where the time of a step goes, beside the table."""
    for _ in range(3):
        step()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        torch.cuda.synchronize()
    table = profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=45)
    rows.arguments.output.with_suffix(".profile.txt").write_text(table, encoding="utf-8")


def measure_xl_define(rows: Rows) -> None:
    with with_compiled_losses():
        for width in (384, 128):
            bare = "standard" if width == 384 else "projective"
            for kind in (bare, "define"):
                row = f"table2a/{kind}-{width}"
                rows.measure(
                    row,
                    "bfloat16",
                    lambda: benchmark.Training(row, rows.arguments, compile=True, **BASE).step,
                )


PARTS = {
    "cudnn": measure_cudnn,
    "kernels": measure_kernels,
    "tuning": measure_tuning,
    "awd-lstm": measure_awd_lstm,
    "embedding": measure_embedding,
    "training": measure_training,
    "wavefront": measure_wavefront,
    "attention": measure_attention,
    "classifier": measure_classifier,
    "xl": measure_xl,
    "xl-define": measure_xl_define,
}


def run_side(parts: list[str], gpu: int, arguments: argparse.Namespace) -> None:
    """Run parts one after the other, each in a process of its own."""
    command = [sys.executable, __file__, "--device", arguments.device]
    command += ["--output", str(arguments.output)] + ["--small"] * arguments.small
    for part in parts:
        start = time.monotonic()
        left = arguments.end - start
        if left < 10:
            Rows(part, arguments).add("no time left", "-", None)
            continue
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)}
        try:
            result = subprocess.run(
                [*command, "--only", part],
                env=environment,
                timeout=left,
                text=True,
                stderr=subprocess.PIPE,
            )
            end = f"rc {result.returncode}" + result.stderr[-1500:] * (result.returncode != 0)
        except subprocess.TimeoutExpired:
            end = "took too long"
            Rows(part, arguments).add("took too long", "-", None)
        print(f"{part}: {time.monotonic() - start:.0f} s, {end}", file=sys.stderr, flush=True)


def main() -> None:
    """Run all parts, or one of them in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=device)
    parser.add_argument("--small", action="store_true", help="toy sizes, for a dry run")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*SIDES[0], *SIDES[1]])
    parser.add_argument("--only", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=Path("candidates.csv"))
    parser.add_argument("--minutes", type=float, default=5, help="what is measured then counts")
    arguments = parser.parse_args()
    arguments.end = time.monotonic() + arguments.minutes * 60
    if arguments.only:
        torch.set_num_threads(1 if arguments.device == "cpu" else 4)
        PARTS[arguments.only](Rows(arguments.only, arguments))
        return
    arguments.output.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    gpus = torch.cuda.device_count() if arguments.device == "cuda" else 1
    sides = [[part for part in side if part in arguments.parts] for side in SIDES]
    sides = sides if gpus > 1 else [[*sides[0], *sides[1]]]
    with ThreadPoolExecutor() as pool:
        list(pool.map(run_side, sides, range(len(sides)), [arguments] * len(sides)))
    rows = list(csv.DictReader(arguments.output.open(encoding="utf-8")))
    rows.sort(key=lambda row: list(PARTS).index(row["part"]))
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|---|---:|---|")
    for row in rows:
        print(f"| {' | '.join(row[column] for column in COLUMNS)} |")


if __name__ == "__main__":
    main()

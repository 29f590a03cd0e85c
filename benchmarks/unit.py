"""Time and memory traffic of the DeFINE unit against its bounds and its alternatives.

    python benchmarks/unit.py                     on the GPU in bfloat16, else on the CPU
    python benchmarks/unit.py --device cpu --threads 2 --output unit.csv

Part 1, the unit on vectors, forward and backward with all gradients:

    unit          DefineUnit
    unfused       the same without the fused kernels (GPU only)
    dense stack   the same widths with one group everywhere
    loop          group maps as a plain loop over groups

Part 2, a layer on token ids (Zipf-distributed, as words are): nn.Embedding(V, m), projective,
DeFINE; in training, and in evaluation without gradients, where DeFINE looks up its kept table.

Part 3, the break-even between computing every token of a batch and computing the whole vocabulary
once and looking up (GPU) or every distinct token once (CPU), by vocabulary, batch and unit.

Bounds beside part 1. "whole unit": all its floating-point operations at the card's peak, or its
input, output, weights and their gradients once through memory, whichever takes longer. "products":
the same for each matrix product by itself, its operands and result once through memory, added up;
everything between two products is free. Peaks of a GPU are its data sheet's; those of a CPU are
measured here with a large product and a large copy.

On a GPU a time is that of a CUDA graph of the whole step, so launches by a slow host don't hide
the card's own time; "eager" is the same step launched from Python. All contenders take turns
within one run; the median of the rounds is printed.
"""

import argparse
import copy
import csv
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from onmt_define import DefineEmbedding, DefineUnit, ProjectiveEmbedding
from onmt_define.embeddings import GroupLinear, define_unit

# tokens, n, k, m, N: translation (Table 3), LSTM (Table 1a), Transformer-XL (Table 2)
SHAPES = [
    (25_000, 128, 1024, 512, 3),
    (8_400, 384, 1024, 384, 7),
    (8_400, 384, 4096, 384, 3),
]
VOCABULARY = 32_000
# Dense bfloat16 operations a second and bytes a second, from the data sheets.
GPU_PEAKS = {"H100": (989e12, 3.35e12), "H200": (989e12, 4.8e12)}


class LoopGroupLinear(GroupLinear):
    """A group map as a loop: what one writes first."""

    def forward(self, features: Tensor) -> Tensor:
        chunks = features.chunk(self.groups, -1)
        mapped = torch.cat([c @ k for c, k in zip(chunks, self.kernel.unbind(), strict=True)], -1)
        return mapped if self.bias is None else mapped + self.bias


class UnfusedUnit(DefineUnit):
    """The unit from separate operations of torch."""

    def forward(self, inputs: Tensor) -> Tensor:
        can_fuse, define_unit.can_fuse = define_unit.can_fuse, lambda *_: False
        try:
            return super().forward(inputs)
        finally:
            define_unit.can_fuse = can_fuse


def loop_unit(unit: DefineUnit) -> nn.Module:
    """A copy of the unit whose group maps loop."""
    looping = copy.deepcopy(unit)
    looping.__class__ = UnfusedUnit
    for linear in looping.maps:
        linear.__class__ = LoopGroupLinear
    return looping


def unfused_unit(unit: DefineUnit) -> nn.Module:
    """A copy of the unit that doesn't use the fused kernels."""
    unfused = copy.deepcopy(unit)
    unfused.__class__ = UnfusedUnit
    return unfused


def dense_stack(unit: DefineUnit) -> nn.Module:
    """The unit's widths with one group everywhere."""
    dense = unfused_unit(unit)
    for index, linear in enumerate(dense.maps):
        bias = linear.bias is not None
        dense.maps[index] = GroupLinear(linear.in_features, linear.out_features, 1, bias)
    dense.groups = [1] * len(dense.groups)
    return dense


def bounds(unit: DefineUnit, tokens: int, size: int, peaks: tuple[float, float]) -> list[float]:
    """Least seconds of forward and backward: of the whole unit, and of its products one by one."""
    operations_a_second, bytes_a_second = peaks
    # Forward, gradient of the input and gradient of the weights: three products a map.
    operations = [6 * tokens * linear.kernel.numel() for linear in unit.maps]
    weights = [linear.kernel.numel() for linear in unit.maps]
    ends = 2 * tokens * (unit.input_dim + unit.output_dim) + 3 * sum(weights)
    whole = max(sum(operations) / operations_a_second, ends * size / bytes_a_second)
    products = 0.0
    for linear, count, weight in zip(unit.maps, operations, weights, strict=True):
        moved = 3 * (tokens * (linear.in_features + linear.out_features) + weight)
        products += max(count / operations_a_second, moved * size / bytes_a_second)
    return [whole, products]


def training_step(module: nn.Module, inputs: Tensor, gradient: Tensor) -> Callable[[], None]:
    """Forward and backward with fresh gradients of everything."""
    leaves = [*module.parameters(), *([inputs] if inputs.requires_grad else [])]

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        module(inputs).backward(gradient)

    return step


def evaluation_step(module: nn.Module, inputs: Tensor) -> Callable[[], None]:
    """Forward without gradients."""

    @torch.inference_mode()
    def step() -> None:
        module(inputs)

    return step


def as_graph(step: Callable[[], None]) -> Callable[[], None]:
    """The step's kernels recorded once and replayed by one launch."""
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


def seconds(step: Callable[[], None], device: str, repeats: int) -> float:
    """Seconds of one step, as the average of `repeats` in a row."""
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        return (time.perf_counter() - start) / repeats
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats / 1e3


def take_turns(
    steps: dict[str, Callable[[], None]], device: str, repeats: int, rounds: int
) -> dict[str, float]:
    """Median seconds of each step over rounds in which every one has its turn."""
    for step in steps.values():
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(seconds(step, device, repeats))
    return {name: statistics.median(values) for name, values in times.items()}


def cpu_peaks() -> tuple[float, float]:
    """Operations and bytes a second that a large product and a large copy reach here."""
    matrix, memory = torch.randn(2048, 2048), torch.empty(1 << 26)
    copied = torch.empty_like(memory)
    product = min(seconds(lambda: matrix @ matrix, "cpu", 3) for _ in range(3))
    moved = min(seconds(lambda: copied.copy_(memory), "cpu", 3) for _ in range(3))
    return 2 * 2048**3 / product, 2 * memory.numel() * 4 / moved


def zipf_tokens(count: int, vocabulary: int, device: str) -> Tensor:
    """Ids whose frequency falls as one over their rank."""
    weights = 1.0 / torch.arange(1, vocabulary + 1, dtype=torch.float64)
    return torch.multinomial(weights, count, replacement=True).to(device)


class Benchmark:
    """Runs the parts on one device and collects their rows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.device, self.rounds = arguments.device, arguments.rounds
        self.dtype = torch.float32 if self.device == "cpu" else torch.bfloat16
        self.repeats = 1 if self.device == "cpu" else 50
        self.rows: list[dict[str, object]] = []
        if self.device == "cpu":
            self.name, self.peaks = f"CPU, {torch.get_num_threads()} threads", cpu_peaks()
        else:
            self.name = torch.cuda.get_device_name()
            self.peaks = next((p for key, p in GPU_PEAKS.items() if key in self.name), (0.0, 0.0))
            if not self.peaks[0]:
                sys.exit(f"no peaks known for {self.name}, expected one of {', '.join(GPU_PEAKS)}")
        print(
            f"{self.name}, torch {torch.__version__}, {self.dtype}: peaks "
            f"{self.peaks[0] / 1e12:.3g} Tflop/s, {self.peaks[1] / 1e9:.4g} GB/s"
        )

    def measure(self, steps: dict[str, Callable[[], None]]) -> dict[str, float]:
        """Seconds of each; on a GPU replayed as graphs, with the eager launch of the first."""
        if self.device == "cpu":
            return take_turns(steps, self.device, self.repeats, self.rounds)
        graphs = {name: as_graph(step) for name, step in steps.items()}
        first = next(iter(steps))
        graphs[f"{first} (eager)"] = steps[first]
        return take_turns(graphs, self.device, self.repeats, self.rounds)

    def show(self, part: str, case: str, times: dict[str, float], notes: dict[str, str]) -> None:
        """Print one case and keep its rows."""
        print(f"\n{case}")
        for name, value in times.items():
            note = notes.get(name, "")
            print(f"  {name:28}{value * 1e6:12,.1f} us  {note}")
            self.rows.append(
                {"device": self.name, "part": part, "case": case, "what": name}
                | {"microseconds": round(value * 1e6, 2), "note": note}
            )

    def unit(self, shape: tuple[int, ...]) -> None:
        """Part 1 for one shape."""
        tokens, n, k, m, depth = shape
        unit = DefineUnit(n, m, k, depth).to(self.device, self.dtype)
        inputs = torch.randn(tokens, n, device=self.device, dtype=self.dtype, requires_grad=True)
        gradient = torch.randn(tokens, m, device=self.device, dtype=self.dtype)
        modules = {"unit": unit, "dense stack": dense_stack(unit), "loop": loop_unit(unit)}
        if self.device != "cpu":
            modules["unfused"] = unfused_unit(unit)
        modules = {name: module.to(self.device, self.dtype) for name, module in modules.items()}
        times = self.measure(
            {name: training_step(module, inputs, gradient) for name, module in modules.items()}
        )
        whole, products = bounds(unit, tokens, gradient.element_size(), self.peaks)
        notes = {
            name: f"{value / whole:.2f} x whole-unit bound, {value / products:.2f} x products "
            f"bound, {value / times['loop']:.2f} x loop"
            for name, value in times.items()
        }
        times |= {"bound: whole unit": whole, "bound: products": products}
        self.show("unit", f"unit forward+backward {list(shape)}", times, notes)
        forward = self.measure(
            {name: evaluation_step(module, inputs) for name, module in modules.items()}
        )
        self.show("unit", f"unit forward {list(shape)}", forward, {})

    def layers(self, shape: tuple[int, ...]) -> None:
        """Part 2 for one shape."""
        tokens, n, k, m, depth = shape
        ids = zipf_tokens(tokens, VOCABULARY, self.device)
        gradient = torch.randn(tokens, m, device=self.device, dtype=self.dtype)
        layers = {
            "define": DefineEmbedding(VOCABULARY, m, n, k, depth),
            "nn.Embedding": nn.Embedding(VOCABULARY, m),
            "projective": ProjectiveEmbedding(VOCABULARY, m, n),
        }
        layers = {name: layer.to(self.device, self.dtype) for name, layer in layers.items()}
        case = f"V={VOCABULARY:,} {list(shape)}, {len(ids.unique()):,} distinct tokens"
        steps = {name: training_step(layer, ids, gradient) for name, layer in layers.items()}
        self.show("layer", f"layer forward+backward {case}", self.measure(steps), {})
        steps = {name: evaluation_step(layer.eval(), ids) for name, layer in layers.items()}
        times = self.measure(steps)
        ratio = times["define"] / times["nn.Embedding"]
        self.show("layer", f"layer evaluation {case}", times, {"define": f"{ratio:.3f} x nn.E."})

    def break_even(self, shape: tuple[int, ...]) -> None:
        """Part 3 for one unit: which vocabularies and batches profit."""
        _, n, k, m, depth = shape
        for vocabulary in (4_000, 8_000, 16_000, 32_000):
            for tokens in (4_000, 25_000, 100_000) if self.device != "cpu" else (500, 4_000):
                layer = DefineEmbedding(vocabulary, m, n, k, depth).to(self.device, self.dtype)
                direct = copy.deepcopy(layer)
                direct.compute = direct._compute_each
                shared = copy.deepcopy(layer)
                if self.device != "cpu":
                    shared.compute = shared._compute_vocabulary
                ids = zipf_tokens(tokens, vocabulary, self.device)
                gradient = torch.randn(tokens, m, device=self.device, dtype=self.dtype)
                times = self.measure(
                    {
                        "shared": training_step(shared, ids, gradient),
                        "each token": training_step(direct, ids, gradient),
                        "as shipped": training_step(layer, ids, gradient),
                    }
                )
                times.pop("shared (eager)", None)
                case = (
                    f"break-even n={n} k={k} m={m} N={depth}: V={vocabulary:,}, {tokens:,} tokens"
                )
                ratio = times["shared"] / times["each token"]
                distinct = f"{len(ids.unique()):,} distinct, {ratio:.2f} x each token"
                self.show("break-even", case, times, {"shared": distinct})


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=["cpu", "cuda"], default=default)
    parser.add_argument("--threads", type=int, help="threads of the CPU (default: torch's)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    parser.add_argument(
        "--parts", nargs="+", choices=["unit", "layers", "break-even"], default=["unit", "layers"]
    )
    parser.add_argument("--output", metavar="CSV", help="also write all rows to this file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    benchmark = Benchmark(arguments)
    for shape in SHAPES:
        if "unit" in arguments.parts:
            benchmark.unit(shape)
        if "layers" in arguments.parts:
            benchmark.layers(shape)
        if "break-even" in arguments.parts:
            benchmark.break_even(shape)
    if arguments.output:
        with open(arguments.output, "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(benchmark.rows[0]))
            writer.writeheader()
            writer.writerows(benchmark.rows)


if __name__ == "__main__":
    main()

"""Throw-away: times candidates for the fused unit on a GPU. `python benchmarks/candidates.py`"""

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
import triton
from benchmarks.present_unit import fused_unit as old
from benchmarks.present_unit import mix_norm_kernels as old_mix
from benchmarks.unit import (
    SHAPES,
    as_graph,
    bounds,
    loop_unit,
    seconds,
    training_step,
    unfused_unit,
)

from onmt_define import DefineUnit
from onmt_define.embeddings import define_unit, weight_gradient_kernels as wg
from onmt_define.embeddings import fused_unit as new
from onmt_define.embeddings import mix_norm_kernels as mix

T0 = time.time()
DEVICE = os.environ.get("CANDIDATES_DEVICE", "cuda")
TILINGS = [
    wg.Tiling(128, 256, 64, 8, 3, 1),
    wg.Tiling(128, 256, 64, 8, 4, 1),
    wg.Tiling(128, 128, 64, 4, 3, 2),
]
# warps, programs each, stages
FORWARD = [(1, 16, 3), (1, 1 << 16, 1), (2, 1 << 16, 1), (4, 1 << 16, 1)]
BACKWARD = [(1, 16, 3), (1, 12, 2), (2, 8, 3), (2, 6, 2), (4, 3, 3), (4, 3, 2), (8, 2, 2)]


class Case:
    """Everything of one shape."""

    def __init__(self, shape):
        torch.manual_seed(0)
        self.shape = shape
        tokens, n, k, m, depth = shape
        self.unit = DefineUnit(n, m, k, depth).to(DEVICE)
        for norm in self.unit.norms:
            torch.nn.init.normal_(norm.weight, 1.0, 0.2)
            torch.nn.init.normal_(norm.bias, 0.0, 0.2)
        self.exact = unfused_unit(self.unit)
        self.unit = self.unit.bfloat16()
        self.inputs = torch.randn(
            tokens, n, device=DEVICE, dtype=torch.bfloat16, requires_grad=True
        )
        self.gradient = torch.randn(tokens, m, device=DEVICE, dtype=torch.bfloat16)

    def rows(self, width):
        return torch.randn(self.shape[0], width, device=DEVICE, dtype=torch.bfloat16)

    def whole(self, name, fused_forward):
        def step():
            define_unit.fused_forward = fused_forward
            try:
                training_step(self.unit, self.inputs, self.gradient)()
            finally:
                define_unit.fused_forward = new.fused_forward

        return f"whole unit: {name}", step

    def candidates(self):
        """Name and function of each, in blocks that compile apart."""
        unit, tokens = self.unit, self.shape[0]
        yield self.whole("present", old.fused_forward)
        yield self.whole("new", new.fused_forward)
        n = unit.input_dim
        # Weight gradients
        rows_in = [self.rows(n)]
        shapes = [wg.MapShape(n, unit.widths[0], unit.groups[0], n)]
        for linear in unit.maps[1:]:
            width = linear.in_features
            last = linear is unit.maps[-1]
            stride = (width + 8) // 8 * 8 if last else width
            rows_in.append(self.rows(stride))
            shapes.append(wg.MapShape(width + last, linear.out_features, linear.groups, stride))
        rows_out = [self.rows(linear.out_features) for linear in unit.maps]
        for index, (a, b, linear) in enumerate(zip(rows_in, rows_out, unit.maps)):
            yield (
                f"dW {index}: present",
                lambda a=a, b=b, g=linear.groups: old._map_gradient(a, b, g),
            )
        for tiling in TILINGS:
            name = "/".join(map(str, dataclasses.astuple(tiling)))
            yield (
                f"dW all: {name}",
                lambda t=tiling: wg.weight_gradients(rows_in, rows_out, shapes, t),
            )
        # Products
        for index, linear in enumerate(unit.maps):
            kernel = linear.kernel.detach()
            aligned = all(width % 8 == 0 for width in kernel.shape[1:])
            for way, source, matrix in (
                ("forward", rows_in[index][:, : linear.in_features], kernel),
                ("dX", rows_out[index], kernel.transpose(1, 2)),
            ):
                source = source.contiguous()
                if not aligned and linear.groups > 1:
                    yield f"{way} {index}: present", lambda s=source, k=matrix: old._map(s, k)
                    yield f"{way} {index}: new", lambda s=source, k=matrix: new._map(s, k)
        # Between the products
        for index, norm in enumerate(unit.norms):
            width = norm.weight.shape[0]
            hidden, groups, grads = self.rows(width - n), unit.groups[index + 1], self.rows(width)
            inputs, gain, shift = self.rows(n), norm.weight.detach(), norm.bias.detach()
            last = index == len(unit.norms) - 1
            arguments = (inputs, hidden, gain, shift, groups, 1e-5, "gelu", 0.0, 0, last)
            means, roots = torch.zeros(tokens, device=DEVICE), torch.ones(tokens, device=DEVICE)
            extra = None if last else torch.zeros_like(inputs)
            back = (grads, inputs, hidden, gain, shift, means, roots, groups, "gelu", 0.0, 0, extra)
            yield f"mix {index}: present", lambda a=arguments: old_mix.mix_norm_activate(*a)
            yield f"mix bwd {index}: present", lambda b=back: old_mix.mix_norm_activate_backward(*b)
            for launch in FORWARD if unit.depth == 3 else FORWARD[:2]:
                yield (
                    f"mix {index} ({width}): {launch}",
                    lambda a=arguments, h=mix.Launch(*launch): self.mixed(a, h),
                )
            for launch in BACKWARD if unit.depth == 3 else BACKWARD[:3]:
                yield (
                    f"mix bwd {index} ({width}): {launch}",
                    lambda b=back, h=mix.Launch(*launch): self.mixed_back(b, h),
                )

    def mixed(self, arguments, how):
        kept, mix.forward_launch = mix.forward_launch, lambda _: how
        try:
            return mix.mix_norm_activate(*arguments)
        finally:
            mix.forward_launch = kept

    def mixed_back(self, arguments, how):
        kept, mix.backward_launch = mix.backward_launch, lambda _: how
        try:
            sums = mix.NormGradients([arguments[3]], self.shape[0])
            mix.mix_norm_activate_backward(*arguments, sums, 0)
            return sums.total()
        finally:
            mix.backward_launch = kept

    def check(self):
        """Relative errors against plain float32."""

        def run(module, dtype):
            x = self.inputs.detach().to(dtype).requires_grad_()
            for p in module.parameters():
                p.grad = None
            y = module(x)
            y.backward(self.gradient.to(dtype))
            return {"y": y, "x": x.grad} | {k: p.grad for k, p in module.named_parameters()}

        torch.set_float32_matmul_precision("highest")
        exact = run(self.exact, torch.float32)
        for name, forward in (("present", old.fused_forward), ("new", new.fused_forward)):
            define_unit.fused_forward = forward
            try:
                ours = run(self.unit, torch.bfloat16)
                errors = {
                    k: ((ours[k].float() - v).norm() / v.norm()).item() for k, v in exact.items()
                }
                print(f"  {name}: " + ", ".join(f"{k} {e:.1e}" for k, e in errors.items()))
            except Exception as error:
                print(f"  {name}: FAILED {type(error).__name__}: {str(error)[:300]}")
            finally:
                define_unit.fused_forward = new.fused_forward

    def profile(self, fused_forward):
        """Time of each kernel of a step."""
        _, step = self.whole("", fused_forward)
        for _ in range(3):
            step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(10):
                step()
            torch.cuda.synchronize()
        sums, calls = defaultdict(float), defaultdict(int)
        for event in profile.events():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                sums[event.name] += event.time_range.elapsed_us() / 10
                calls[event.name] += 1
        for name in sorted(sums, key=sums.get, reverse=True):
            print(f"    {sums[name]:8.1f} us  {calls[name] / 10:4.1f} x {name[:110]}")
        print(f"    {sum(sums.values()):8.1f} us  total")


def compile_share(index, of):
    number = 0
    for shape in SHAPES:
        case = Case(shape)
        for name, function in case.candidates():
            number += 1
            if number % of == index:
                try:
                    function()
                    torch.cuda.synchronize()
                except Exception:
                    pass


def best_of(step):
    graph = as_graph(step)
    graph()
    torch.cuda.synchronize()
    return sorted(seconds(graph, "cuda", 20) for _ in range(5))[2] * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", nargs=2, type=int)
    parser.add_argument("--limit", type=float, default=140, help="seconds for everything")
    arguments = parser.parse_args()
    if arguments.compile:
        return compile_share(*arguments.compile)
    print(
        torch.cuda.get_device_name(), torch.__version__, triton.__version__, os.cpu_count(), "cores"
    )
    workers = max(1, min(12, (os.cpu_count() or 2) - 2))
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--compile", str(i), str(workers)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for i in range(workers)
    ]
    deadline = time.time() + 0.55 * arguments.limit
    for child in children:
        try:
            child.wait(max(0.1, deadline - time.time()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            print("a compiling process was stopped")
    print(f"compiled after {time.time() - T0:.0f} s", flush=True)
    cases = [Case(SHAPES[index]) for index in (0, 2, 1)]
    for case in cases:
        print(f"\nrelative errors against float32, {case.shape}")
        case.check()
    for case in cases:
        print(
            f"\n{case.shape}, bounds (us): whole, products",
            [round(b * 1e6, 1) for b in bounds(case.unit, case.shape[0], 2, (989e12, 3.35e12))],
        )
        loop = loop_unit(case.unit)
        print(f"  {best_of(training_step(loop, case.inputs, case.gradient)):9.1f} us  loop")
        for name, step in case.candidates():
            if time.time() - T0 > arguments.limit:
                print("  out of time")
                break
            try:
                print(f"  {best_of(step):9.1f} us  {name}", flush=True)
            except Exception as error:
                torch.cuda.synchronize()
                print(
                    f"     failed     {name}: {type(error).__name__}: {str(error)[:150]!r}",
                    flush=True,
                )
        for name, forward in (("new", new.fused_forward),):
            print(f"  kernels of one step, {name}")
            try:
                case.profile(forward)
            except Exception as error:
                print(f"    failed: {type(error).__name__}: {str(error)[:200]}")
    print(f"done after {time.time() - T0:.0f} s")


if __name__ == "__main__":
    main()

"""One kernel each way for what a DeFINE unit does between two maps, on a GPU.

Mixing, LayerNorm, activation and dropout are one pass over memory: the mixed vector is never
written before it is normalised, and its two parts are read where the maps left them. Written with
Triton, which comes with torch's CUDA builds.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Programs that share the rows in the backward pass; each adds up its rows' gradients of gain and
# shift, so more of them mean more parallel work and more partial sums.
PROGRAMS_PER_PROCESSOR = 4


@triton.jit
def _activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    elif ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    return x


@triton.jit
def _slope(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        bell = 0.3989422804014327 * tl.exp(-0.5 * x * x)
        slope = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * bell
    elif ACTIVATION == "silu":
        gate = tl.sigmoid(x)
        slope = gate * (1.0 + x * (1.0 - gate))
    elif ACTIVATION == "relu":
        slope = tl.where(x > 0.0, 1.0, 0.0)
    else:
        slope = x * 0.0 + 1.0
    return slope


@triton.jit
def _places(index, CHUNK: tl.constexpr, OTHER: tl.constexpr, BEFORE: tl.constexpr):
    """Where a feature of one part lies in the mixed vector: its group's start, then its place."""
    return index // CHUNK * (CHUNK + OTHER) + BEFORE + index % CHUNK


@triton.jit
def _kept(seed, row, place, WIDTH: tl.constexpr, dropout):
    """1 / (1 - dropout) for a feature that is kept, 0 for one that is dropped."""
    random = tl.rand(seed, row * WIDTH + place)
    return tl.where(random >= dropout, 1.0 / (1.0 - dropout), 0.0)


# Triton would compile anew for a seed or number of rows that happens to be a multiple of 16.
@triton.jit(do_not_specialize=["seed"])
def _forward_kernel(
    inputs,
    hidden,
    gain,
    shift,
    mixed,
    means,
    roots,
    eps,
    seed,
    dropout,
    N: tl.constexpr,
    H: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_H: tl.constexpr,
    ACTIVATION: tl.constexpr,
    DROPS: tl.constexpr,
):
    WIDTH: tl.constexpr = N + H
    row = tl.program_id(0).to(tl.int64)
    n, h = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_H)
    x = tl.load(inputs + row * N + n, mask=n < N, other=0.0).to(tl.float32)
    y = tl.load(hidden + row * H + h, mask=h < H, other=0.0).to(tl.float32)
    mean = (tl.sum(x, 0) + tl.sum(y, 0)) / WIDTH
    x = tl.where(n < N, x - mean, 0.0)
    y = tl.where(h < H, y - mean, 0.0)
    root = tl.rsqrt((tl.sum(x * x, 0) + tl.sum(y * y, 0)) / WIDTH + eps)
    tl.store(means + row, mean)
    tl.store(roots + row, root)

    at_x = _places(n, N // GROUPS, H // GROUPS, 0)
    at_y = _places(h, H // GROUPS, N // GROUPS, N // GROUPS)
    gain_x = tl.load(gain + at_x, mask=n < N, other=0.0).to(tl.float32)
    gain_y = tl.load(gain + at_y, mask=h < H, other=0.0).to(tl.float32)
    shift_x = tl.load(shift + at_x, mask=n < N, other=0.0).to(tl.float32)
    shift_y = tl.load(shift + at_y, mask=h < H, other=0.0).to(tl.float32)
    x = _activate(x * root * gain_x + shift_x, ACTIVATION)
    y = _activate(y * root * gain_y + shift_y, ACTIVATION)
    if DROPS:
        x *= _kept(seed, row, at_x, WIDTH, dropout)
        y *= _kept(seed, row, at_y, WIDTH, dropout)
    tl.store(mixed + row * WIDTH + at_x, x.to(mixed.dtype.element_ty), mask=n < N)
    tl.store(mixed + row * WIDTH + at_y, y.to(mixed.dtype.element_ty), mask=h < H)


@triton.jit(do_not_specialize=["seed", "rows"])
def _backward_kernel(
    grad_mixed,
    inputs,
    hidden,
    gain,
    shift,
    means,
    roots,
    grad_inputs,
    grad_hidden,
    partial_sums,
    rows,
    seed,
    dropout,
    N: tl.constexpr,
    H: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_H: tl.constexpr,
    ACTIVATION: tl.constexpr,
    DROPS: tl.constexpr,
    ADDS: tl.constexpr,
):
    WIDTH: tl.constexpr = N + H
    program, programs = tl.program_id(0), tl.num_programs(0)
    n, h = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_H)
    at_x = _places(n, N // GROUPS, H // GROUPS, 0)
    at_y = _places(h, H // GROUPS, N // GROUPS, N // GROUPS)
    gain_x = tl.load(gain + at_x, mask=n < N, other=0.0).to(tl.float32)
    gain_y = tl.load(gain + at_y, mask=h < H, other=0.0).to(tl.float32)
    shift_x = tl.load(shift + at_x, mask=n < N, other=0.0).to(tl.float32)
    shift_y = tl.load(shift + at_y, mask=h < H, other=0.0).to(tl.float32)
    sum_gain_x, sum_shift_x = tl.zeros([BLOCK_N], tl.float32), tl.zeros([BLOCK_N], tl.float32)
    sum_gain_y, sum_shift_y = tl.zeros([BLOCK_H], tl.float32), tl.zeros([BLOCK_H], tl.float32)

    for row32 in range(program, rows, programs):
        row = tl.cast(row32, tl.int64)
        mean, root = tl.load(means + row), tl.load(roots + row)
        x = tl.load(inputs + row * N + n, mask=n < N, other=0.0).to(tl.float32)
        y = tl.load(hidden + row * H + h, mask=h < H, other=0.0).to(tl.float32)
        grad_x = tl.load(grad_mixed + row * WIDTH + at_x, mask=n < N, other=0.0).to(tl.float32)
        grad_y = tl.load(grad_mixed + row * WIDTH + at_y, mask=h < H, other=0.0).to(tl.float32)
        if DROPS:
            grad_x *= _kept(seed, row, at_x, WIDTH, dropout)
            grad_y *= _kept(seed, row, at_y, WIDTH, dropout)
        x = (x - mean) * root
        y = (y - mean) * root
        grad_x *= _slope(x * gain_x + shift_x, ACTIVATION)
        grad_y *= _slope(y * gain_y + shift_y, ACTIVATION)
        sum_gain_x += grad_x * x
        sum_gain_y += grad_y * y
        sum_shift_x += grad_x
        sum_shift_y += grad_y
        grad_x *= gain_x
        grad_y *= gain_y
        mean_grad = (tl.sum(grad_x, 0) + tl.sum(grad_y, 0)) / WIDTH
        mean_product = (tl.sum(grad_x * x, 0) + tl.sum(grad_y * y, 0)) / WIDTH
        grad_x = (grad_x - mean_grad - x * mean_product) * root
        grad_y = (grad_y - mean_grad - y * mean_product) * root
        if ADDS:
            grad_x += tl.load(grad_inputs + row * N + n, mask=n < N, other=0.0).to(tl.float32)
        tl.store(grad_inputs + row * N + n, grad_x.to(grad_inputs.dtype.element_ty), mask=n < N)
        tl.store(grad_hidden + row * H + h, grad_y.to(grad_hidden.dtype.element_ty), mask=h < H)

    partial = partial_sums + program * 2 * WIDTH
    tl.store(partial + at_x, sum_gain_x, mask=n < N)
    tl.store(partial + at_y, sum_gain_y, mask=h < H)
    tl.store(partial + WIDTH + at_x, sum_shift_x, mask=n < N)
    tl.store(partial + WIDTH + at_y, sum_shift_y, mask=h < H)


def _launch_settings(n: int, h: int, groups: int, activation: str, dropout: float) -> dict:
    blocks = triton.next_power_of_2(n), triton.next_power_of_2(h)
    return {
        "N": n,
        "H": h,
        "GROUPS": groups,
        "BLOCK_N": blocks[0],
        "BLOCK_H": blocks[1],
        "ACTIVATION": activation,
        "DROPS": dropout > 0,
        "num_warps": min(8, max(1, sum(blocks) // 512)),
    }


def mix_norm_activate(
    inputs: Tensor,
    hidden: Tensor,
    gain: Tensor,
    shift: Tensor,
    groups: int,
    eps: float,
    activation: str,
    dropout: float,
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Dropout(activation(LayerNorm(split_and_mix(inputs, hidden)))) of each row.

    Shapes: inputs (rows, n), hidden (rows, h), gain and shift (n + h), all contiguous.

    Returns:
        The result (rows, n + h), and each row's mean and reciprocal standard deviation (rows).
    """
    (rows, n), h = inputs.shape, hidden.shape[1]
    mixed = hidden.new_empty(rows, n + h)
    means, roots = (gain.new_empty(rows, dtype=torch.float32) for _ in range(2))
    settings = _launch_settings(n, h, groups, activation, dropout)
    _forward_kernel[(rows,)](
        inputs, hidden, gain, shift, mixed, means, roots, eps, seed, dropout, **settings
    )
    return mixed, means, roots


def mix_norm_activate_backward(
    grad_mixed: Tensor,
    inputs: Tensor,
    hidden: Tensor,
    gain: Tensor,
    shift: Tensor,
    means: Tensor,
    roots: Tensor,
    groups: int,
    activation: str,
    dropout: float,
    seed: int,
    grad_inputs: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `mix_norm_activate` for the gradient of its result, (rows, n + h).

    Returns:
        Gradients of inputs (added to `grad_inputs` in place where that is given), of hidden, and
        of gain and shift, stacked as (2, n + h) in float32.
    """
    (rows, n), h = inputs.shape, hidden.shape[1]
    adds = grad_inputs is not None
    if grad_inputs is None:
        grad_inputs = torch.empty_like(inputs)
    grad_hidden = torch.empty_like(hidden)
    processors = torch.cuda.get_device_properties(inputs.device).multi_processor_count
    programs = min(rows, processors * PROGRAMS_PER_PROCESSOR)
    partial_sums = gain.new_empty(programs, 2, n + h, dtype=torch.float32)
    _backward_kernel[(programs,)](
        grad_mixed,
        inputs,
        hidden,
        gain,
        shift,
        means,
        roots,
        grad_inputs,
        grad_hidden,
        partial_sums,
        rows,
        seed,
        dropout,
        ADDS=adds,
        **_launch_settings(n, h, groups, activation, dropout),
    )
    return grad_inputs, grad_hidden, partial_sums.sum(0)

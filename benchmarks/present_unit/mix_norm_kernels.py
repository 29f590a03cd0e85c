"""One kernel each way for what a DeFINE unit does between two maps, on a GPU.

Mixing, LayerNorm, activation and dropout are one pass over memory: the mixed vector is never
written before it is normalised, and its two parts are read where the maps left them. Written with
Triton, which comes with torch's CUDA builds.
"""

import functools
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Warps of one processor that share the rows in the backward pass. Each program adds up its rows'
# gradients of gain and shift, so more of them mean more parallel work and more partial sums.
WARPS_PER_PROCESSOR = 16
# A row is spread over so many threads that each holds about this many features.
FEATURES_PER_THREAD = 64
# Rows on their way from memory while one is worked on.
STAGES = 3


@triton.jit
def _normal_distribution(x, EXACT: tl.constexpr):
    """Cumulative probability and density of the standard normal distribution at x.

    To 16 bits both come from one exponential (Abramowitz and Stegun, 7.1.26: error below 1e-7).
    """
    exponential = tl.exp(-0.5 * x * x)
    if EXACT:
        cumulative = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    else:
        t = 1.0 / (1.0 + 0.23164189 * tl.abs(x))
        series = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
        tail = 0.5 * t * (0.254829592 + t * (-0.284496736 + t * series)) * exponential
        cumulative = tl.where(x < 0.0, tail, 1.0 - tail)
    return cumulative, 0.3989422804014327 * exponential


@triton.jit
def _activate(x, ACTIVATION: tl.constexpr, EXACT: tl.constexpr):
    if ACTIVATION == "gelu":
        cumulative, _ = _normal_distribution(x, EXACT)
        x *= cumulative
    elif ACTIVATION == "silu":
        x *= tl.sigmoid(x)
    elif ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    return x


@triton.jit
def _slope(x, ACTIVATION: tl.constexpr, EXACT: tl.constexpr):
    if ACTIVATION == "gelu":
        cumulative, density = _normal_distribution(x, EXACT)
        slope = cumulative + x * density
    elif ACTIVATION == "silu":
        gate = tl.sigmoid(x)
        slope = gate * (1.0 + x * (1.0 - gate))
    elif ACTIVATION == "relu":
        slope = tl.where(x > 0.0, 1.0, 0.0)
    else:
        slope = x * 0.0 + 1.0
    return slope


@triton.jit
def _piece(
    GROUPS: tl.constexpr,
    CHUNK: tl.constexpr,
    BEFORE: tl.constexpr,
    MIXED_CHUNK: tl.constexpr,
    START: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Places of some columns of each group's chunk: in their own row, in the mixed row, and which
    of them exist. Blocks are powers of two and chunks aren't, so a chunk is cut into two pieces."""
    group = tl.arange(0, GROUPS)[:, None]
    column = START + tl.arange(0, BLOCK)[None, :]
    exists = (column < CHUNK) & (group < GROUPS)
    return group * CHUNK + column, group * MIXED_CHUNK + BEFORE + column, exists


@triton.jit
def _load(pointer, places, exists):
    return tl.load(pointer + places, mask=exists, other=0.0).to(tl.float32)


@triton.jit
def _store(pointer, places, exists, values):
    tl.store(pointer + places, values.to(pointer.dtype.element_ty), mask=exists)


@triton.jit
def _sum(values, rest, HAS_REST: tl.constexpr):
    """Sum of both pieces; a sum over threads costs too much to be taken of an empty piece."""
    total = tl.sum(tl.sum(values, 1), 0)
    if HAS_REST:
        total += tl.sum(tl.sum(rest, 1), 0)
    return total


@triton.jit
def _kept(seed, places, dropout):
    """1 / (1 - dropout) for a feature that is kept, 0 for one that is dropped."""
    return tl.where(tl.rand(seed, places) >= dropout, 1.0 / (1.0 - dropout), 0.0)


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
    N_BLOCK: tl.constexpr,
    N_REST: tl.constexpr,
    H_BLOCK: tl.constexpr,
    H_REST: tl.constexpr,
    ACTIVATION: tl.constexpr,
    EXACT: tl.constexpr,
    DROPS: tl.constexpr,
    STRIDE: tl.constexpr,
):
    WIDTH: tl.constexpr = N + H
    CN: tl.constexpr = N // GROUPS
    CH: tl.constexpr = H // GROUPS
    N_HAS_REST: tl.constexpr = N_BLOCK < CN
    H_HAS_REST: tl.constexpr = H_BLOCK < CH
    row = tl.program_id(0).to(tl.int64)
    at_x, to_x, is_x = _piece(GROUPS, CN, 0, CN + CH, 0, N_BLOCK)
    at_u, to_u, is_u = _piece(GROUPS, CN, 0, CN + CH, N_BLOCK, N_REST)
    at_y, to_y, is_y = _piece(GROUPS, CH, CN, CN + CH, 0, H_BLOCK)
    at_v, to_v, is_v = _piece(GROUPS, CH, CN, CN + CH, H_BLOCK, H_REST)
    x, u = _load(inputs + row * N, at_x, is_x), _load(inputs + row * N, at_u, is_u)
    y, v = _load(hidden + row * H, at_y, is_y), _load(hidden + row * H, at_v, is_v)
    mean = (_sum(x, u, N_HAS_REST) + _sum(y, v, H_HAS_REST)) / WIDTH
    x = tl.where(is_x, x - mean, 0.0)
    u = tl.where(is_u, u - mean, 0.0)
    y = tl.where(is_y, y - mean, 0.0)
    v = tl.where(is_v, v - mean, 0.0)
    squares = _sum(x * x, u * u, N_HAS_REST) + _sum(y * y, v * v, H_HAS_REST)
    root = tl.rsqrt(squares / WIDTH + eps)
    tl.store(means + row, mean)
    tl.store(roots + row, root)
    x = _activate(x * root * _load(gain, to_x, is_x) + _load(shift, to_x, is_x), ACTIVATION, EXACT)
    u = _activate(u * root * _load(gain, to_u, is_u) + _load(shift, to_u, is_u), ACTIVATION, EXACT)
    y = _activate(y * root * _load(gain, to_y, is_y) + _load(shift, to_y, is_y), ACTIVATION, EXACT)
    v = _activate(v * root * _load(gain, to_v, is_v) + _load(shift, to_v, is_v), ACTIVATION, EXACT)
    if DROPS:
        x *= _kept(seed, row * WIDTH + to_x, dropout)
        u *= _kept(seed, row * WIDTH + to_u, dropout)
        y *= _kept(seed, row * WIDTH + to_y, dropout)
        v *= _kept(seed, row * WIDTH + to_v, dropout)
    result = mixed + row * STRIDE
    _store(result, to_x, is_x, x)
    _store(result, to_u, is_u, u)
    _store(result, to_y, is_y, y)
    _store(result, to_v, is_v, v)
    if STRIDE > WIDTH:
        after = tl.arange(0, 8)
        one = tl.where(after == 0, 1.0, 0.0)
        _store(result, WIDTH + after, after < STRIDE - WIDTH, one)


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
    N_BLOCK: tl.constexpr,
    N_REST: tl.constexpr,
    H_BLOCK: tl.constexpr,
    H_REST: tl.constexpr,
    ACTIVATION: tl.constexpr,
    EXACT: tl.constexpr,
    DROPS: tl.constexpr,
    STAGES: tl.constexpr,
    ADDS: tl.constexpr,
):
    WIDTH: tl.constexpr = N + H
    CN: tl.constexpr = N // GROUPS
    CH: tl.constexpr = H // GROUPS
    N_HAS_REST: tl.constexpr = N_BLOCK < CN
    H_HAS_REST: tl.constexpr = H_BLOCK < CH
    program, programs = tl.program_id(0), tl.num_programs(0)
    at_x, to_x, is_x = _piece(GROUPS, CN, 0, CN + CH, 0, N_BLOCK)
    at_u, to_u, is_u = _piece(GROUPS, CN, 0, CN + CH, N_BLOCK, N_REST)
    at_y, to_y, is_y = _piece(GROUPS, CH, CN, CN + CH, 0, H_BLOCK)
    at_v, to_v, is_v = _piece(GROUPS, CH, CN, CN + CH, H_BLOCK, H_REST)
    gain_x, shift_x = _load(gain, to_x, is_x), _load(shift, to_x, is_x)
    gain_u, shift_u = _load(gain, to_u, is_u), _load(shift, to_u, is_u)
    gain_y, shift_y = _load(gain, to_y, is_y), _load(shift, to_y, is_y)
    gain_v, shift_v = _load(gain, to_v, is_v), _load(shift, to_v, is_v)
    gains_x, shifts_x = gain_x * 0.0, gain_x * 0.0
    gains_u, shifts_u = gain_u * 0.0, gain_u * 0.0
    gains_y, shifts_y = gain_y * 0.0, gain_y * 0.0
    gains_v, shifts_v = gain_v * 0.0, gain_v * 0.0

    for row32 in tl.range(program, rows, programs, num_stages=STAGES):
        row = tl.cast(row32, tl.int64)
        mean, root = tl.load(means + row), tl.load(roots + row)
        start = row * WIDTH
        grads = grad_mixed + start
        dx, du = _load(grads, to_x, is_x), _load(grads, to_u, is_u)
        dy, dv = _load(grads, to_y, is_y), _load(grads, to_v, is_v)
        if DROPS:
            dx *= _kept(seed, start + to_x, dropout)
            du *= _kept(seed, start + to_u, dropout)
            dy *= _kept(seed, start + to_y, dropout)
            dv *= _kept(seed, start + to_v, dropout)
        x = (_load(inputs + row * N, at_x, is_x) - mean) * root
        u = (_load(inputs + row * N, at_u, is_u) - mean) * root
        y = (_load(hidden + row * H, at_y, is_y) - mean) * root
        v = (_load(hidden + row * H, at_v, is_v) - mean) * root
        dx *= _slope(x * gain_x + shift_x, ACTIVATION, EXACT)
        du *= _slope(u * gain_u + shift_u, ACTIVATION, EXACT)
        dy *= _slope(y * gain_y + shift_y, ACTIVATION, EXACT)
        dv *= _slope(v * gain_v + shift_v, ACTIVATION, EXACT)
        gains_x += dx * x
        gains_u += du * u
        gains_y += dy * y
        gains_v += dv * v
        shifts_x += dx
        shifts_u += du
        shifts_y += dy
        shifts_v += dv
        dx *= gain_x
        du *= gain_u
        dy *= gain_y
        dv *= gain_v
        mean_grad = (_sum(dx, du, N_HAS_REST) + _sum(dy, dv, H_HAS_REST)) / WIDTH
        product = _sum(dx * x, du * u, N_HAS_REST) + _sum(dy * y, dv * v, H_HAS_REST)
        mean_product = product / WIDTH
        dx = (dx - mean_grad - x * mean_product) * root
        du = (du - mean_grad - u * mean_product) * root
        dy = (dy - mean_grad - y * mean_product) * root
        dv = (dv - mean_grad - v * mean_product) * root
        result = grad_inputs + row * N
        if ADDS:
            dx += _load(result, at_x, is_x)
            du += _load(result, at_u, is_u)
        _store(result, at_x, is_x, dx)
        _store(result, at_u, is_u, du)
        _store(grad_hidden + row * H, at_y, is_y, dy)
        _store(grad_hidden + row * H, at_v, is_v, dv)

    partial_sums += program * 2 * WIDTH
    _store(partial_sums, to_x, is_x, gains_x)
    _store(partial_sums, to_u, is_u, gains_u)
    _store(partial_sums, to_y, is_y, gains_y)
    _store(partial_sums, to_v, is_v, gains_v)
    partial_sums += WIDTH
    _store(partial_sums, to_x, is_x, shifts_x)
    _store(partial_sums, to_u, is_u, shifts_u)
    _store(partial_sums, to_y, is_y, shifts_y)
    _store(partial_sums, to_v, is_v, shifts_v)


@functools.cache
def _launch_settings(
    n: int, h: int, groups: int, activation: str, dtype: torch.dtype, dropout: bool
) -> dict[str, Any]:
    (n_block, n_rest), (h_block, h_rest) = _blocks(n // groups), _blocks(h // groups)
    threads = triton.next_power_of_2(max(1, (n + h) // FEATURES_PER_THREAD))
    return {
        "N": n,
        "H": h,
        "GROUPS": groups,
        "N_BLOCK": n_block,
        "N_REST": n_rest,
        "H_BLOCK": h_block,
        "H_REST": h_rest,
        "ACTIVATION": activation,
        "EXACT": dtype == torch.float32,
        "DROPS": dropout,
        "num_warps": min(16, max(1, threads // 32)),
    }


def _blocks(chunk: int) -> tuple[int, int]:
    """Two powers of two that cover `chunk` columns; where one does, the other is 1 and empty."""
    block = 1 << (chunk.bit_length() - 1)
    return block, triton.next_power_of_2(max(1, chunk - block))


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
    appends_one: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Dropout(activation(LayerNorm(split_and_mix(inputs, hidden)))) of each row.

    Shapes: inputs (rows, n), hidden (rows, h), gain and shift (n + h), all contiguous.

    Returns:
        The result (rows, n + h), and each row's mean and reciprocal standard deviation (rows).
        With `appends_one` each row goes on with a one and zeros up to a multiple of 8: a product
        of its transpose then holds the sum over all rows too.
    """
    (rows, n), h = inputs.shape, hidden.shape[1]
    stride = (n + h + 8) // 8 * 8 if appends_one else n + h
    mixed = hidden.new_empty(rows, stride)
    means, roots = (gain.new_empty(rows, dtype=torch.float32) for _ in range(2))
    settings = _launch_settings(n, h, groups, activation, hidden.dtype, dropout > 0)
    _forward_kernel[(rows,)](
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
        STRIDE=stride,
        **settings,
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
    settings = _launch_settings(n, h, groups, activation, hidden.dtype, dropout > 0)
    programs_each = max(1, WARPS_PER_PROCESSOR // settings["num_warps"])
    programs = min(rows, _processors(inputs.device) * programs_each)
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
        STAGES=STAGES,
        **settings,
    )
    return grad_inputs, grad_hidden, partial_sums.sum(0)


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count

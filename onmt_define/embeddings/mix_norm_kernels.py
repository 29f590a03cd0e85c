"""One kernel each way for what a DeFINE unit does between two maps, on a GPU.

Mixing, LayerNorm, activation and dropout are one pass over memory: the mixed vector is never
written before it is normalised, and its two parts are read where the maps left them. Written with
Triton, which comes with torch's CUDA builds.

The matrix products before and after go through the rows from the first to the last; these kernels
go from the last to the first, so that the rows at hand are the ones that the cache still holds.
"""

import functools
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Launch:
    """How a GPU's processors share the rows."""

    # Rows that one program works on at a time, and its warps.
    rows: int = 1
    warps: int = 1
    # Programs for each processor. In the backward pass each adds up its rows' gradients of gain
    # and shift, so more of them mean more parallel work and more partial sums.
    programs_each: int = 16
    # Blocks of rows on their way from memory while one is worked on.
    stages: int = 3


@triton.jit
def _normal_distribution(x, EXACT: tl.constexpr):
    """Cumulative probability and density of the standard normal distribution at x.

    To 16 bits both come from one exponential (Abramowitz and Stegun, 7.1.26: error below 1e-7).
    """
    exponential = tl.exp2(-0.7213475204444817 * x * x)
    if EXACT:
        cumulative = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    else:
        inverse = 1.0 + 0.23164189 * tl.abs(x)
        # One instruction, which a division isn't.
        t = tl.rsqrt(inverse * inverse)
        series = 0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)
        tail = t * (0.127414796 + t * (-0.142248368 + t * series)) * exponential
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
    of them exist; each (1, groups, columns). Blocks are powers of two and chunks aren't, so a chunk
    is cut into two pieces."""
    group = tl.arange(0, GROUPS)[None, :, None]
    column = START + tl.arange(0, BLOCK)[None, None, :]
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
    """Sum of each row of both pieces, (rows, 1, 1); that of an empty piece would cost too much."""
    total = tl.sum(tl.sum(values, 2), 1)
    if HAS_REST:
        total += tl.sum(tl.sum(rest, 2), 1)
    return total[:, None, None]


@triton.jit
def _kept(seed, places, dropout):
    """1 / (1 - dropout) for a feature that is kept, 0 for one that is dropped."""
    return tl.where(tl.rand(seed, places) >= dropout, 1.0 / (1.0 - dropout), 0.0)


# Triton would compile anew for a seed or number of rows that happens to be a multiple of 16.
@triton.jit(do_not_specialize=["seed", "rows"])
def _forward_kernel(
    inputs,
    hidden,
    gain,
    shift,
    mixed,
    means,
    roots,
    rows,
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
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    STRIDE: tl.constexpr,
):
    WIDTH: tl.constexpr = N + H
    CN: tl.constexpr = N // GROUPS
    CH: tl.constexpr = H // GROUPS
    N_HAS_REST: tl.constexpr = N_BLOCK < CN
    H_HAS_REST: tl.constexpr = H_BLOCK < CH
    at_x, to_x, is_x = _piece(GROUPS, CN, 0, CN + CH, 0, N_BLOCK)
    at_u, to_u, is_u = _piece(GROUPS, CN, 0, CN + CH, N_BLOCK, N_REST)
    at_y, to_y, is_y = _piece(GROUPS, CH, CN, CN + CH, 0, H_BLOCK)
    at_v, to_v, is_v = _piece(GROUPS, CH, CN, CN + CH, H_BLOCK, H_REST)
    blocks = (rows + ROWS - 1) // ROWS
    for step in tl.range(tl.program_id(0), blocks, tl.num_programs(0), num_stages=STAGES):
        row32 = (blocks - 1 - step) * ROWS + tl.arange(0, ROWS)[:, None, None]
        row, exists = row32.to(tl.int64), row32 < rows
        x = _load(inputs, row * N + at_x, exists & is_x)
        u = _load(inputs, row * N + at_u, exists & is_u)
        y = _load(hidden, row * H + at_y, exists & is_y)
        v = _load(hidden, row * H + at_v, exists & is_v)
        mean = (_sum(x, u, N_HAS_REST) + _sum(y, v, H_HAS_REST)) / WIDTH
        x = tl.where(is_x, x - mean, 0.0)
        u = tl.where(is_u, u - mean, 0.0)
        y = tl.where(is_y, y - mean, 0.0)
        v = tl.where(is_v, v - mean, 0.0)
        squares = _sum(x * x, u * u, N_HAS_REST) + _sum(y * y, v * v, H_HAS_REST)
        root = tl.rsqrt(squares / WIDTH + eps)
        tl.store(means + row, mean, exists)
        tl.store(roots + row, root, exists)
        x = x * root * _load(gain, to_x, is_x) + _load(shift, to_x, is_x)
        u = u * root * _load(gain, to_u, is_u) + _load(shift, to_u, is_u)
        y = y * root * _load(gain, to_y, is_y) + _load(shift, to_y, is_y)
        v = v * root * _load(gain, to_v, is_v) + _load(shift, to_v, is_v)
        x, u = _activate(x, ACTIVATION, EXACT), _activate(u, ACTIVATION, EXACT)
        y, v = _activate(y, ACTIVATION, EXACT), _activate(v, ACTIVATION, EXACT)
        if DROPS:
            x *= _kept(seed, row * WIDTH + to_x, dropout)
            u *= _kept(seed, row * WIDTH + to_u, dropout)
            y *= _kept(seed, row * WIDTH + to_y, dropout)
            v *= _kept(seed, row * WIDTH + to_v, dropout)
        start = row * STRIDE
        _store(mixed, start + to_x, exists & is_x, x)
        _store(mixed, start + to_u, exists & is_u, u)
        _store(mixed, start + to_y, exists & is_y, y)
        _store(mixed, start + to_v, exists & is_v, v)
        if STRIDE > WIDTH:
            after = tl.arange(0, 8)[None, None, :]
            one = tl.where(after + row * 0 == 0, 1.0, 0.0)
            _store(mixed, start + WIDTH + after, exists & (after < STRIDE - WIDTH), one)


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
    partial_stride,
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
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    ADDS: tl.constexpr,
):
    WIDTH: tl.constexpr = N + H
    CN: tl.constexpr = N // GROUPS
    CH: tl.constexpr = H // GROUPS
    N_HAS_REST: tl.constexpr = N_BLOCK < CN
    H_HAS_REST: tl.constexpr = H_BLOCK < CH
    at_x, to_x, is_x = _piece(GROUPS, CN, 0, CN + CH, 0, N_BLOCK)
    at_u, to_u, is_u = _piece(GROUPS, CN, 0, CN + CH, N_BLOCK, N_REST)
    at_y, to_y, is_y = _piece(GROUPS, CH, CN, CN + CH, 0, H_BLOCK)
    at_v, to_v, is_v = _piece(GROUPS, CH, CN, CN + CH, H_BLOCK, H_REST)
    gain_x, shift_x = _load(gain, to_x, is_x), _load(shift, to_x, is_x)
    gain_u, shift_u = _load(gain, to_u, is_u), _load(shift, to_u, is_u)
    gain_y, shift_y = _load(gain, to_y, is_y), _load(shift, to_y, is_y)
    gain_v, shift_v = _load(gain, to_v, is_v), _load(shift, to_v, is_v)
    gains_x = tl.zeros((ROWS, GROUPS, N_BLOCK), tl.float32)
    gains_u = tl.zeros((ROWS, GROUPS, N_REST), tl.float32)
    gains_y = tl.zeros((ROWS, GROUPS, H_BLOCK), tl.float32)
    gains_v = tl.zeros((ROWS, GROUPS, H_REST), tl.float32)
    shifts_x, shifts_u, shifts_y, shifts_v = gains_x, gains_u, gains_y, gains_v

    blocks = (rows + ROWS - 1) // ROWS
    for step in tl.range(tl.program_id(0), blocks, tl.num_programs(0), num_stages=STAGES):
        row32 = (blocks - 1 - step) * ROWS + tl.arange(0, ROWS)[:, None, None]
        row, exists = row32.to(tl.int64), row32 < rows
        mean = tl.load(means + row, exists, 0.0)
        root = tl.load(roots + row, exists, 0.0)
        start = row * WIDTH
        dx = _load(grad_mixed, start + to_x, exists & is_x)
        du = _load(grad_mixed, start + to_u, exists & is_u)
        dy = _load(grad_mixed, start + to_y, exists & is_y)
        dv = _load(grad_mixed, start + to_v, exists & is_v)
        if DROPS:
            dx *= _kept(seed, start + to_x, dropout)
            du *= _kept(seed, start + to_u, dropout)
            dy *= _kept(seed, start + to_y, dropout)
            dv *= _kept(seed, start + to_v, dropout)
        x = (_load(inputs, row * N + at_x, exists & is_x) - mean) * root
        u = (_load(inputs, row * N + at_u, exists & is_u) - mean) * root
        y = (_load(hidden, row * H + at_y, exists & is_y) - mean) * root
        v = (_load(hidden, row * H + at_v, exists & is_v) - mean) * root
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
        if ADDS:
            dx += _load(grad_inputs, row * N + at_x, exists & is_x)
            du += _load(grad_inputs, row * N + at_u, exists & is_u)
        _store(grad_inputs, row * N + at_x, exists & is_x, dx)
        _store(grad_inputs, row * N + at_u, exists & is_u, du)
        _store(grad_hidden, row * H + at_y, exists & is_y, dy)
        _store(grad_hidden, row * H + at_v, exists & is_v, dv)

    partial_sums += tl.program_id(0) * partial_stride
    _store_sums(partial_sums, to_x, is_x, gains_x, shifts_x, WIDTH)
    _store_sums(partial_sums, to_u, is_u, gains_u, shifts_u, WIDTH)
    _store_sums(partial_sums, to_y, is_y, gains_y, shifts_y, WIDTH)
    _store_sums(partial_sums, to_v, is_v, gains_v, shifts_v, WIDTH)


@triton.jit
def _store_sums(partial_sums, places, exists, gains, shifts, WIDTH: tl.constexpr):
    _store(partial_sums, places, exists, tl.sum(gains, 0)[None, :, :])
    _store(partial_sums + WIDTH, places, exists, tl.sum(shifts, 0)[None, :, :])


@triton.jit(do_not_specialize=["programs"])
def _sum_kernel(
    partial_sums, sums, programs, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Add up the programs' partial sums, for some of the columns."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    totals = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, programs, ROWS):
        exists = (first + row < programs) & (column < WIDTH)
        totals += tl.load(partial_sums + (first + row) * WIDTH + column, exists, 0.0)
    place = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(sums + place, tl.sum(totals, 0), place < WIDTH)


def launch(width: int, backward: bool) -> Launch:
    """How rows of that width are shared: about 64 features for each thread."""
    threads = triton.next_power_of_2(max(1, width // 64))
    warps = min(16, max(1, threads // 32))
    return Launch(warps=warps, programs_each=max(1, 16 // warps))


@functools.cache
def _constants(
    n: int, h: int, groups: int, activation: str, dtype: torch.dtype, dropout: bool
) -> dict[str, Any]:
    (n_block, n_rest), (h_block, h_rest) = _blocks(n // groups), _blocks(h // groups)
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
    how = launch(n + h, backward=False)
    programs = _processors(inputs.device) * how.programs_each
    _forward_kernel[(min(programs, triton.cdiv(rows, how.rows)),)](
        inputs,
        hidden,
        gain,
        shift,
        mixed,
        means,
        roots,
        rows,
        eps,
        seed,
        dropout,
        ROWS=how.rows,
        STAGES=how.stages,
        STRIDE=stride,
        num_warps=how.warps,
        **_constants(n, h, groups, activation, hidden.dtype, dropout > 0),
    )
    return mixed, means, roots


class NormGradients:
    """Sums over all rows for the gradients of gain and shift, of several norms."""

    def __init__(self, widths: list[int], rows: int, device: torch.device) -> None:
        self.sizes = [2 * width for width in widths]
        hows = [launch(width, backward=True) for width in widths]
        blocks = max(triton.cdiv(rows, how.rows) for how in hows)
        programs_each = max(how.programs_each for how in hows)
        self.programs = min(blocks, _processors(device) * programs_each)
        self._partial_sums = torch.empty(self.programs, sum(self.sizes), device=device)

    def partial_sums(self, index: int) -> Tensor:
        """Where the programs of one norm leave their sums, (programs, 2 * width)."""
        return self._partial_sums[:, sum(self.sizes[:index]) :]

    def total(self) -> list[Tensor]:
        """Gradients of gain and shift of each norm, stacked as (2, width) in float32."""
        width = sum(self.sizes)
        sums = self._partial_sums.new_empty(width)
        columns = 16
        _sum_kernel[(triton.cdiv(width, columns),)](
            self._partial_sums, sums, self.programs, WIDTH=width, ROWS=256, COLUMNS=columns
        )
        return [part.view(2, -1) for part in sums.split(self.sizes)]


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
    partial_sums: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of `mix_norm_activate` for the gradient of its result, (rows, n + h).

    Those of gain and shift are left in `partial_sums`, of `NormGradients`.

    Returns:
        Gradients of inputs (added to `grad_inputs` in place where that is given) and of hidden.
    """
    (rows, n), h = inputs.shape, hidden.shape[1]
    adds = grad_inputs is not None
    if grad_inputs is None:
        grad_inputs = torch.empty_like(inputs)
    grad_hidden = torch.empty_like(hidden)
    how = launch(n + h, backward=True)
    _backward_kernel[(partial_sums.shape[0],)](
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
        partial_sums.stride(0),
        ADDS=adds,
        ROWS=how.rows,
        STAGES=how.stages,
        num_warps=how.warps,
        **_constants(n, h, groups, activation, hidden.dtype, dropout > 0),
    )
    return grad_inputs, grad_hidden


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count

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
from triton.language.extra import libdevice

from onmt_define.embeddings.short_gelu import DERIVATIVE, EXPONENT, LARGEST_SQUARE

# A kernel sees numbers of its module only in this form.
EXPONENT_1, EXPONENT_3, EXPONENT_5 = (tl.constexpr(value) for value in EXPONENT)
DERIVATIVE_1, DERIVATIVE_3, DERIVATIVE_5 = (tl.constexpr(value) for value in DERIVATIVE)
HIGHEST_SQUARE = tl.constexpr(LARGEST_SQUARE)
# Programs for each processor that are never fewer than the rows.
ONE_ROW_EACH = 1 << 16
# Part of the programs' sums that one program adds up at a time.
ROWS_AT_ONCE, COLUMNS_AT_ONCE = 256, 16


@triton.jit
def _normal_distribution(x, EXACT: tl.constexpr):
    """Cumulative probability of the standard normal distribution at x, and x times its density.

    Exact to float32's rounding, or as `short_gelu.py` describes.
    """
    if EXACT:
        cumulative = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
        by_density = x * 0.3989422804014327 * tl.exp2(-0.7213475204444817 * x * x)
    else:
        square = tl.minimum(x * x, HIGHEST_SQUARE)
        exponent = x * (EXPONENT_1 + square * (EXPONENT_3 + square * EXPONENT_5))
        inverse = 1.0 + tl.exp2(-exponent)
        # One instruction, which a division isn't.
        cumulative = tl.rsqrt(inverse * inverse)
        slope = DERIVATIVE_1 + square * (DERIVATIVE_3 + square * DERIVATIVE_5)
        by_density = (cumulative - cumulative * cumulative) * (x * slope)
    return cumulative, by_density


@triton.jit
def _tanh(x, EXACT: tl.constexpr):
    """Exact to float32's rounding, or the processor's own within 2^-11 of the value."""
    if EXACT:
        result = libdevice.tanh(x)
    else:
        result = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return result


@triton.jit
def _activate(x, ACTIVATION: tl.constexpr, EXACT: tl.constexpr):
    if ACTIVATION == "tanh":
        x = _tanh(x, EXACT)
    elif ACTIVATION == "gelu":
        cumulative, _ = _normal_distribution(x, EXACT)
        x *= cumulative
    elif ACTIVATION == "silu":
        x *= tl.sigmoid(x)
    elif ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    return x


@triton.jit
def _slope(x, ACTIVATION: tl.constexpr, EXACT: tl.constexpr):
    if ACTIVATION == "tanh":
        value = _tanh(x, EXACT)
        slope = 1.0 - value * value
    elif ACTIVATION == "gelu":
        cumulative, by_density = _normal_distribution(x, EXACT)
        slope = cumulative + by_density
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
    of them exist; each (groups, columns). Blocks are powers of two and chunks aren't, so a chunk
    is cut into two pieces."""
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
def _threads_sums(values, THREADS: tl.constexpr):
    """Of a piece's values the sum of those that one thread holds, (threads).

    Pieces differ in shape; these sums don't, and adding them up before anything goes from one
    thread to another leaves a single exchange for a whole row.
    """
    EACH: tl.constexpr = values.numel // THREADS
    WIDE: tl.constexpr = EACH if EACH < 8 else 8
    if EACH > 0:
        sums = tl.sum(tl.reshape(values, (EACH // WIDE, THREADS, WIDE)), 2)
        sums = tl.sum(sums, 0)
    else:
        total = tl.sum(tl.sum(values, 1), 0)
        sums = tl.where(tl.arange(0, THREADS) == 0, total, 0.0)
    return sums


@triton.jit
def _row_sums(
    x, u, y, v, N_HAS_REST: tl.constexpr, H_HAS_REST: tl.constexpr, THREADS: tl.constexpr
):
    """Sums of a row's four pieces, (threads); an empty piece isn't worth its instructions."""
    sums = _threads_sums(x, THREADS) + _threads_sums(y, THREADS)
    if N_HAS_REST:
        sums += _threads_sums(u, THREADS)
    if H_HAS_REST:
        sums += _threads_sums(v, THREADS)
    return sums


@triton.jit
def _add_both(a, b, c, d):
    return a + c, b + d


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
    STAGES: tl.constexpr,
    THREADS: tl.constexpr,
    STRIDE: tl.constexpr,
):
    """inputs (rows, N) and hidden (rows, H) to mixed (rows, N + H, and what STRIDE has more).

    Also means and roots (rows) for the way back; gain and shift are (N + H). Of a row, x and u are
    the two pieces of the inputs' chunks, y and v those of the hidden ones, (GROUPS, columns) each.
    """
    WIDTH: tl.constexpr = N + H
    CN: tl.constexpr = N // GROUPS
    CH: tl.constexpr = H // GROUPS
    N_HAS_REST: tl.constexpr = N_BLOCK < CN
    H_HAS_REST: tl.constexpr = H_BLOCK < CH
    at_x, to_x, is_x = _piece(GROUPS, CN, 0, CN + CH, 0, N_BLOCK)
    at_u, to_u, is_u = _piece(GROUPS, CN, 0, CN + CH, N_BLOCK, N_REST)
    at_y, to_y, is_y = _piece(GROUPS, CH, CN, CN + CH, 0, H_BLOCK)
    at_v, to_v, is_v = _piece(GROUPS, CH, CN, CN + CH, H_BLOCK, H_REST)
    for step in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        row = (rows - 1 - step).to(tl.int64)
        x, u = _load(inputs + row * N, at_x, is_x), _load(inputs + row * N, at_u, is_u)
        y, v = _load(hidden + row * H, at_y, is_y), _load(hidden + row * H, at_v, is_v)
        mean = tl.sum(_row_sums(x, u, y, v, N_HAS_REST, H_HAS_REST, THREADS), 0) / WIDTH
        x = tl.where(is_x, x - mean, 0.0)
        u = tl.where(is_u, u - mean, 0.0)
        y = tl.where(is_y, y - mean, 0.0)
        v = tl.where(is_v, v - mean, 0.0)
        squares = _row_sums(x * x, u * u, y * y, v * v, N_HAS_REST, H_HAS_REST, THREADS)
        root = tl.rsqrt(tl.sum(squares, 0) / WIDTH + eps)
        tl.store(means + row, mean)
        tl.store(roots + row, root)
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
    STAGES: tl.constexpr,
    THREADS: tl.constexpr,
    ADDS: tl.constexpr,
):
    """grad_mixed (rows, N + H) to grad_inputs (rows, N) and grad_hidden (rows, H).

    Each program leaves the sums over its rows for the gradients of gain and shift, one after the
    other, in partial_sums (programs, partial_stride). Pieces are called as in the other kernel.
    """
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
    gains_x, gains_u, gains_y, gains_v = gain_x * 0.0, gain_u * 0.0, gain_y * 0.0, gain_v * 0.0
    shifts_x, shifts_u, shifts_y, shifts_v = gains_x, gains_u, gains_y, gains_v

    for step in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        row = (rows - 1 - step).to(tl.int64)
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
        grads_sums = _row_sums(dx, du, dy, dv, N_HAS_REST, H_HAS_REST, THREADS)
        products = _row_sums(dx * x, du * u, dy * y, dv * v, N_HAS_REST, H_HAS_REST, THREADS)
        sums = tl.reduce((grads_sums, products), 0, _add_both)
        mean_grad, mean_product = sums[0] / WIDTH, sums[1] / WIDTH
        dx = (dx - mean_grad - x * mean_product) * root
        du = (du - mean_grad - u * mean_product) * root
        dy = (dy - mean_grad - y * mean_product) * root
        dv = (dv - mean_grad - v * mean_product) * root
        if ADDS:
            dx += _load(grad_inputs + row * N, at_x, is_x)
            du += _load(grad_inputs + row * N, at_u, is_u)
        _store(grad_inputs + row * N, at_x, is_x, dx)
        _store(grad_inputs + row * N, at_u, is_u, du)
        _store(grad_hidden + row * H, at_y, is_y, dy)
        _store(grad_hidden + row * H, at_v, is_v, dv)

    partial_sums += tl.program_id(0) * partial_stride
    _store_sums(partial_sums, to_x, is_x, gains_x, shifts_x, WIDTH)
    _store_sums(partial_sums, to_u, is_u, gains_u, shifts_u, WIDTH)
    _store_sums(partial_sums, to_y, is_y, gains_y, shifts_y, WIDTH)
    _store_sums(partial_sums, to_v, is_v, gains_v, shifts_v, WIDTH)


@triton.jit
def _store_sums(partial_sums, places, exists, gains, shifts, WIDTH: tl.constexpr):
    _store(partial_sums, places, exists, gains)
    _store(partial_sums + WIDTH, places, exists, shifts)


@triton.jit(do_not_specialize=["programs"])
def _sum_programs_kernel(
    partial_sums, sums, programs, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Add up partial sums (programs, WIDTH) to sums (WIDTH), for COLUMNS of the columns."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    totals = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, programs, ROWS):
        exists = (first + row < programs) & (column < WIDTH)
        totals += tl.load(partial_sums + (first + row) * WIDTH + column, exists, 0.0)
    place = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(sums + place, tl.sum(totals, 0), place < WIDTH)


@dataclass(frozen=True)
class Launch:
    """How a GPU's processors share the rows."""

    # Warps of one program, which works on one row at a time.
    warps: int = 1
    # Programs for each processor. In the backward pass each adds up its rows' gradients of gain
    # and shift, so more of them mean more parallel work and more partial sums.
    programs_each: int = 16
    # Rows on their way from memory while one is worked on.
    stages: int = 3


def forward_launch(width: int) -> Launch:
    """The fastest of those measured: narrow rows many to a program, others one each."""
    if width <= 512:
        return Launch(warps=1, programs_each=16)
    # Nothing to fetch ahead where there is one row.
    return Launch(warps=_warps(width), programs_each=ONE_ROW_EACH, stages=1)


def backward_launch(width: int) -> Launch:
    """The fastest of those measured up to 2,624 features: a wide row takes more registers.

    Norms of one unit share a launch, so the widest alone may have a faster one.
    """
    if width <= 736:
        return Launch(warps=1, programs_each=16)
    if width <= 2688:
        return Launch(warps=2, programs_each=8)
    return Launch(warps=4 if width <= 4096 else 8, programs_each=3)


def _warps(width: int) -> int:
    """As few as hold a row with up to about 64 features in each thread."""
    return min(16, max(1, triton.next_power_of_2(max(1, width // 64)) // 32))


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
        "EXACT": dtype != torch.bfloat16,
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
    how = forward_launch(n + h)
    programs = _processors(inputs.device) * how.programs_each
    _forward_kernel[(min(programs, rows),)](
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
        THREADS=32 * how.warps,
        STAGES=how.stages,
        STRIDE=stride,
        num_warps=how.warps,
        **_constants(n, h, groups, activation, hidden.dtype, dropout > 0),
    )
    return mixed, means, roots


class NormGradients:
    """Sums over all rows for the gradients of gain and shift, of several norms."""

    def __init__(self, gains: list[Tensor], rows: int) -> None:
        widths = [gain.shape[0] for gain in gains]
        self.sizes = [2 * width for width in widths]
        self.dtype, device = gains[0].dtype, gains[0].device
        # The same for all, so that one kernel adds up the sums of all.
        self.launch = backward_launch(max(widths))
        self.programs = min(rows, _processors(device) * self.launch.programs_each)
        self._partial_sums = torch.empty(self.programs, sum(self.sizes), device=device)

    def partial_sums(self, index: int) -> Tensor:
        """Where the programs of one norm leave their sums, (programs, 2 * width)."""
        return self._partial_sums[:, sum(self.sizes[:index]) :]

    def total(self) -> list[Tensor]:
        """Gradients of gain and shift, of one norm after the other."""
        width = sum(self.sizes)
        sums = self._partial_sums.new_empty(width, dtype=self.dtype)
        _sum_programs_kernel[(triton.cdiv(width, COLUMNS_AT_ONCE),)](
            self._partial_sums,
            sums,
            self.programs,
            WIDTH=width,
            ROWS=ROWS_AT_ONCE,
            COLUMNS=COLUMNS_AT_ONCE,
        )
        return [half for part in sums.split(self.sizes) for half in part.chunk(2)]


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
    norm_gradients: NormGradients,
    index: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of `mix_norm_activate` for the gradient of its result, (rows, n + h).

    Those of gain and shift are left in `norm_gradients`, as its norm `index`.

    Returns:
        Gradients of inputs (added to `grad_inputs` in place where that is given) and of hidden.
    """
    (rows, n), h = inputs.shape, hidden.shape[1]
    adds = grad_inputs is not None
    if grad_inputs is None:
        grad_inputs = torch.empty_like(inputs)
    grad_hidden = torch.empty_like(hidden)
    how, partial_sums = norm_gradients.launch, norm_gradients.partial_sums(index)
    _backward_kernel[(norm_gradients.programs,)](
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
        THREADS=32 * how.warps,
        STAGES=how.stages,
        num_warps=how.warps,
        **_constants(n, h, groups, activation, hidden.dtype, dropout > 0),
    )
    return grad_inputs, grad_hidden


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count

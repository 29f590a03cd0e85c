"""The recurrence of an LSTM layer as one kernel each way, on a GPU.

cuDNN launches several kernels a time step, and a batch of 20 streams keeps a GPU busy for less time
than a launch takes. Here the programs of one launch stay for the whole sequence: each computes the
same few units in every step and waits, once a step, until all have written theirs. Written with
Triton, which comes with torch's CUDA builds.

T  time steps; B  streams, `batch`; H  units, a multiple of K_BLOCK, zeros behind the layer's own

Zero weights, biases and states keep the units behind a layer's own at exactly zero.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Units of one program: the fewest rows that tensor cores take.
UNITS = 16
# Numbers that a program multiplies at once; widths are padded to a multiple.
K_BLOCK = 64
# At most so many pieces of that size are on their way from memory at once.
MOST_STAGES = 4
# Of a multiprocessor's shared memory, what is left to all but those pieces.
OTHER_SHARED_BYTES = 4096
WARPS = 4


@triton.jit
def _wait_for_all(arrivals, expected):
    """Wait until `expected` arrivals are counted; what was written before them is then seen."""
    tl.debug_barrier()
    arrived = tl.atomic_add(arrivals, 1, sem="acq_rel") + 1
    while arrived < expected:
        arrived = tl.atomic_add(arrivals, 0, sem="acquire")
    tl.debug_barrier()


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit(do_not_specialize=["first", "last", "batch"])
def _forward_kernel(
    gates,
    weights,
    hidden,
    cells,
    arrivals,
    first,
    last,
    batch,
    H: tl.constexpr,
    B_BLOCK: tl.constexpr,
    UNITS: tl.constexpr,
    K_BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    units = (tl.program_id(0) * UNITS + tl.arange(0, UNITS))[:, None]
    streams = tl.arange(0, B_BLOCK)[None, :]
    is_stream = streams < batch
    place = streams * H + units
    cell = tl.load(cells + first * batch * H + place, is_stream, other=0.0)
    for step in range(first, last):
        before = hidden + step * batch * H + streams * H
        i = tl.zeros((UNITS, B_BLOCK), tl.float32)
        f = tl.zeros((UNITS, B_BLOCK), tl.float32)
        g = tl.zeros((UNITS, B_BLOCK), tl.float32)
        o = tl.zeros((UNITS, B_BLOCK), tl.float32)
        for start in tl.range(0, H, K_BLOCK, num_stages=STAGES):
            k = start + tl.arange(0, K_BLOCK)
            known = tl.load(before + k[:, None], is_stream, other=0.0)
            rows = weights + units * H + k[None, :]
            i = tl.dot(tl.load(rows), known, i)
            f = tl.dot(tl.load(rows + H * H), known, f)
            g = tl.dot(tl.load(rows + 2 * H * H), known, g)
            o = tl.dot(tl.load(rows + 3 * H * H), known, o)
        gate = gates + step * batch * 4 * H + streams * 4 * H + units
        i = tl.sigmoid(i + tl.load(gate, is_stream, other=0.0))
        f = tl.sigmoid(f + tl.load(gate + H, is_stream, other=0.0))
        g = _tanh(g + tl.load(gate + 2 * H, is_stream, other=0.0))
        o = tl.sigmoid(o + tl.load(gate + 3 * H, is_stream, other=0.0))
        cell = f * cell + i * g
        after = (step + 1) * batch * H + place
        tl.store(hidden + after, o * _tanh(cell), is_stream)
        tl.store(cells + after, cell, is_stream)
        tl.store(gate, i, is_stream)
        tl.store(gate + H, f, is_stream)
        tl.store(gate + 2 * H, g, is_stream)
        tl.store(gate + 3 * H, o, is_stream)
        if step + 1 < last:
            _wait_for_all(arrivals, (step + 1 - first) * tl.num_programs(0))


@triton.jit(do_not_specialize=["first", "last", "batch"])
def _backward_kernel(
    grad_outputs,
    gates,
    cells,
    weights,
    grad_gates,
    grad_cell,
    arrivals,
    first,
    last,
    batch,
    H: tl.constexpr,
    B_BLOCK: tl.constexpr,
    UNITS: tl.constexpr,
    K_BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    units = (tl.program_id(0) * UNITS + tl.arange(0, UNITS))[:, None]
    streams = tl.arange(0, B_BLOCK)[None, :]
    is_stream = streams < batch
    place = streams * H + units
    carried = tl.load(grad_cell + place, is_stream, other=0.0)
    for done in range(last - first):
        step = last - 1 - done
        later = grad_gates + (step + 1) * batch * 4 * H + streams * 4 * H
        by_i = tl.zeros((UNITS, B_BLOCK), tl.float32)
        by_f = tl.zeros((UNITS, B_BLOCK), tl.float32)
        by_g = tl.zeros((UNITS, B_BLOCK), tl.float32)
        by_o = tl.zeros((UNITS, B_BLOCK), tl.float32)
        for start in tl.range(0, H, K_BLOCK, num_stages=STAGES):
            k = start + tl.arange(0, K_BLOCK)
            known = later + k[:, None]
            rows = weights + units * H + k[None, :]
            by_i = tl.dot(tl.load(rows), tl.load(known, is_stream, other=0.0), by_i)
            known += H
            by_f = tl.dot(tl.load(rows + H * H), tl.load(known, is_stream, other=0.0), by_f)
            known += H
            by_g = tl.dot(tl.load(rows + 2 * H * H), tl.load(known, is_stream, other=0.0), by_g)
            known += H
            by_o = tl.dot(tl.load(rows + 3 * H * H), tl.load(known, is_stream, other=0.0), by_o)
        grad_hidden = tl.load(grad_outputs + step * batch * H + place, is_stream, other=0.0)
        grad_hidden = grad_hidden + (by_i + by_f) + (by_g + by_o)
        gate = step * batch * 4 * H + streams * 4 * H + units
        i = tl.load(gates + gate, is_stream, other=0.0).to(tl.float32)
        f = tl.load(gates + gate + H, is_stream, other=0.0).to(tl.float32)
        g = tl.load(gates + gate + 2 * H, is_stream, other=0.0).to(tl.float32)
        o = tl.load(gates + gate + 3 * H, is_stream, other=0.0).to(tl.float32)
        before = tl.load(cells + step * batch * H + place, is_stream, other=0.0)
        squashed = _tanh(f * before + i * g)
        carried += grad_hidden * o * (1.0 - squashed * squashed)
        result = grad_gates + gate
        tl.store(result, carried * g * i * (1.0 - i), is_stream)
        tl.store(result + H, carried * before * f * (1.0 - f), is_stream)
        tl.store(result + 2 * H, carried * i * (1.0 - g * g), is_stream)
        tl.store(result + 3 * H, grad_hidden * squashed * o * (1.0 - o), is_stream)
        carried *= f
        if done + 1 < last - first:
            _wait_for_all(arrivals, (done + 1) * tl.num_programs(0))
    tl.store(grad_cell + place, carried, is_stream)


def forward(
    gates: Tensor, weights: Tensor, hidden: Tensor, cells: Tensor, steps_at_once: int | None = None
) -> None:
    """Run an LSTM layer over a sequence; hidden[0] and cells[0] are the state before it.

    Shapes: gates (T, B, 4, H), the inputs' part and the biases of each pre-activation, overwritten
    by the activated gates; weights (4, H, H); hidden (T + 1, B, H) and, in float32, cells the same,
    of which all but the first are written. All contiguous.

    Args:
        steps_at_once: time steps of a launch; None is all, for which a GPU must have room for all
            programs at the same time.
    """
    time = gates.shape[0]
    arrivals = _counters(gates, time, steps_at_once)
    for launch, (first, last) in enumerate(_launches(time, steps_at_once)):
        _forward_kernel[(weights.shape[1] // UNITS,)](
            gates,
            weights,
            hidden,
            cells,
            arrivals[launch:],
            first,
            last,
            gates.shape[1],
            **_settings(gates),
        )


def backward(
    grad_outputs: Tensor,
    gates: Tensor,
    cells: Tensor,
    weights: Tensor,
    steps_at_once: int | None = None,
) -> Tensor:
    """Gradient of the pre-activations, (T, B, 4, H), for that of hidden[1:].

    Args:
        grad_outputs: (T, B, H).
        gates, cells: what `forward` wrote.
        weights: each gate's transposed, (4, H, H).
        steps_at_once: see `forward`.
    """
    time, batch, _, width = gates.shape
    grad_gates = gates.new_empty(time + 1, batch, 4, width)
    grad_gates[-1] = 0
    grad_cell = cells.new_zeros(batch, width)
    arrivals = _counters(gates, time, steps_at_once)
    for launch, (first, last) in enumerate(reversed(_launches(time, steps_at_once))):
        _backward_kernel[(width // UNITS,)](
            grad_outputs,
            gates,
            cells,
            weights,
            grad_gates,
            grad_cell,
            arrivals[launch:],
            first,
            last,
            batch,
            **_settings(gates),
        )
    return grad_gates[:-1]


def fits(width: int, batch: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a layer's programs can all run at once, as they wait for each other."""
    programs = -(-width // K_BLOCK) * K_BLOCK // UNITS
    has_room = programs <= torch.cuda.get_device_properties(device).multi_processor_count
    return has_room and _stages(batch, dtype, device) > 0


def stream_block(batch: int) -> int:
    """Streams that the programs count with: a power of two, the fewest that tensor cores take."""
    return max(16, triton.next_power_of_2(batch))


def _stages(batch: int, dtype: torch.dtype, device: torch.device) -> int:
    """Pieces for which the backward kernel, the greedier one, finds shared memory."""
    piece = 4 * (UNITS + stream_block(batch)) * K_BLOCK * dtype.itemsize
    shared = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return min(MOST_STAGES, (shared - OTHER_SHARED_BYTES) // piece)


def _launches(time: int, steps_at_once: int | None) -> list[tuple[int, int]]:
    size = steps_at_once or time
    return [(first, min(first + size, time)) for first in range(0, time, size)]


def _counters(like: Tensor, time: int, steps_at_once: int | None) -> Tensor:
    """A counter of arrivals for each launch."""
    count = len(_launches(time, steps_at_once))
    return torch.zeros(count, dtype=torch.int32, device=like.device)


def _settings(gates: Tensor) -> dict[str, int]:
    return {
        "H": gates.shape[-1],
        "B_BLOCK": stream_block(gates.shape[1]),
        "UNITS": UNITS,
        "K_BLOCK": K_BLOCK,
        "STAGES": _stages(gates.shape[1], gates.dtype, gates.device),
        "num_warps": WARPS,
        "launch_cooperative_grid": True,
    }

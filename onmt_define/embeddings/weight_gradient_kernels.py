"""All weight gradients of a DeFINE unit in one launch, on a GPU's 16-bit tensor cores.

Each gradient is a product over all tokens, and has too few entries to fill a GPU by itself. So the
tokens are split too: each program adds up one tile of one map's gradient over some of the tokens,
and a second kernel adds the programs' sums in a fixed order. Tiles that hold nothing of a map's
diagonal blocks aren't computed.

Rows are read from the full width of a tensor, wherever a group begins, which keeps the loads wide
also for groups whose width isn't a multiple of eight.
"""

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

# Entries that one load of a thread brings at most: 16 bytes.
WIDEST_LOAD = 8
# Entries of all gradients together.
FEW_ENTRIES = 1 << 19
# Lines of a tile that one program adds up over the splits.
LINES_AT_ONCE = 16


@dataclass(frozen=True)
class Tiling:
    """Sizes of the tile of one program, and how a GPU's processor runs it."""

    block_in: int = 128
    block_out: int = 128
    block_rows: int = 64
    warps: int = 8
    stages: int = 3
    # Programs for each of the GPU's processors: as many as its shared memory holds at once.
    programs_each: int = 2


@dataclass(frozen=True)
class MapShape:
    """Widths of a map: features in and out, groups, and of the rows that hold the features in."""

    width_in: int
    width_out: int
    groups: int
    row_width: int


def tiling(shapes: list[MapShape]) -> Tiling:
    """The fastest of those measured: a large tile where there are few, one to a processor."""
    if sum(shape.width_in * shape.width_out // shape.groups for shape in shapes) <= FEW_ENTRIES:
        return Tiling(block_out=256, programs_each=1)
    return Tiling(warps=4)


# Triton would compile anew for a number that happens to be a multiple of 16.
@triton.jit(do_not_specialize=["count", "tile_count"])
def _tile_kernel(
    rows_in,
    rows_out,
    partial_sums,
    tiles,
    count,
    rows_each,
    tile_count,
    FIELDS: tl.constexpr,
    ALIGNED: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    tile, split = tl.program_id(0) % tile_count, tl.program_id(0) // tile_count
    fields = tiles + tile * FIELDS
    layer = tl.load(fields)
    stride_in = tl.multiple_of(tl.load(fields + 1), ALIGNED)
    stride_out = tl.multiple_of(tl.load(fields + 2), ALIGNED)
    column_in = tl.multiple_of(tl.load(fields + 3), ALIGNED) + tl.arange(0, BLOCK_IN)
    column_out = tl.multiple_of(tl.load(fields + 4), ALIGNED) + tl.arange(0, BLOCK_OUT)
    source_in, source_out = rows_in[0], rows_out[0]
    for index in tl.static_range(1, len(rows_in)):
        source_in = tl.where(layer == index, rows_in[index], source_in)
        source_out = tl.where(layer == index, rows_out[index], source_out)

    start = split * rows_each
    end = tl.minimum(start + rows_each, count)
    row = tl.arange(0, BLOCK_ROWS)
    source_in = tl.multiple_of(source_in + start.to(tl.int64) * stride_in, 16)
    source_out = tl.multiple_of(source_out + start.to(tl.int64) * stride_out, 16)
    at_in = source_in + (row[:, None] * stride_in + column_in[None, :])
    at_out = source_out + (row[:, None] * stride_out + column_out[None, :])
    in_row, out_row = (column_in < stride_in)[None, :], (column_out < stride_out)[None, :]
    sums = tl.zeros((BLOCK_IN, BLOCK_OUT), tl.float32)
    for first in range(start, end, BLOCK_ROWS):
        exists = (first + row < end)[:, None]
        features = tl.load(at_in, mask=exists & in_row, other=0.0)
        grads = tl.load(at_out, mask=exists & out_row, other=0.0)
        sums = tl.dot(tl.trans(features), grads, sums)
        at_in += BLOCK_ROWS * stride_in
        at_out += BLOCK_ROWS * stride_out
    in_tile = tl.arange(0, BLOCK_IN)[:, None] * BLOCK_OUT + tl.arange(0, BLOCK_OUT)[None, :]
    tl.store(partial_sums + tl.program_id(0).to(tl.int64) * (BLOCK_IN * BLOCK_OUT) + in_tile, sums)


@triton.jit(do_not_specialize=["splits"])
def _sum_kernel(
    partial_sums,
    result,
    tiles,
    splits,
    FIELDS: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    PIECE: tl.constexpr,
):
    """Add up `PIECE` lines of one tile over the splits, and put them where the gradient is."""
    tile = tl.program_id(0)
    fields = tiles + tile * FIELDS
    in_tile = tl.program_id(1) * PIECE + tl.arange(0, PIECE)
    column_in = tl.load(fields + 3) + in_tile
    column_out = tl.load(fields + 4) + tl.arange(0, BLOCK_OUT)
    places = in_tile[:, None] * BLOCK_OUT + tl.arange(0, BLOCK_OUT)[None, :]
    total = tl.zeros((PIECE, BLOCK_OUT), tl.float32)
    for split in range(splits):
        number = (split * tl.num_programs(0) + tile).to(tl.int64)
        total += tl.load(partial_sums + number * (BLOCK_IN * BLOCK_OUT) + places)
    chunk_in, chunk_out = tl.load(fields + 5), tl.load(fields + 6)
    wanted_in = (column_in >= tl.load(fields + 7)) & (column_in < tl.load(fields + 8))
    wanted_out = (column_out >= tl.load(fields + 9)) & (column_out < tl.load(fields + 10))
    same_group = (column_in // chunk_in)[:, None] == (column_out // chunk_out)[None, :]
    wanted = same_group & wanted_in[:, None] & wanted_out[None, :]
    result += tl.load(fields + 11)
    places = column_in[:, None] * chunk_out + (column_out % chunk_out)[None, :]
    tl.store(result + places, total.to(result.dtype.element_ty), mask=wanted)


def weight_gradients(
    rows_in: list[Tensor], rows_out: list[Tensor], shapes: list[MapShape], tiling: Tiling
) -> list[Tensor]:
    """Gradient of every map's matrices.

    Args:
        rows_in: what each map saw, (rows, row_width); features past `width_in` are left out.
        rows_out: gradient of what it gave, (rows, width_out).
        shapes: of each map.

    Returns:
        Of each map (groups, width_in / groups, width_out / groups), in the type of `rows_in`.
    """
    rows_in, rows_out = ([_aligned(rows) for rows in side] for side in (rows_in, rows_out))
    count, device = rows_in[0].shape[0], rows_in[0].device
    tiles, tile_count, entries, aligned = _tiles(tuple(shapes), tiling, device)
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    splits = max(1, min(processors * tiling.programs_each // tile_count, -(-count // 256)))
    rows_each = -(-count // splits)
    rows_each += -rows_each % tiling.block_rows
    splits = -(-count // rows_each)
    block = (tiling.block_in, tiling.block_out)
    partial_sums = torch.empty(splits * tile_count, *block, dtype=torch.float32, device=device)
    _tile_kernel[(tile_count * splits,)](
        tuple(rows_in),
        tuple(rows_out),
        partial_sums,
        tiles,
        count,
        rows_each,
        tile_count,
        FIELDS=tiles.shape[1],
        ALIGNED=aligned,
        BLOCK_IN=tiling.block_in,
        BLOCK_OUT=tiling.block_out,
        BLOCK_ROWS=tiling.block_rows,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )
    sums = torch.empty(entries, dtype=rows_in[0].dtype, device=device)
    _sum_kernel[(tile_count, tiling.block_in // LINES_AT_ONCE)](
        partial_sums,
        sums,
        tiles,
        splits,
        FIELDS=tiles.shape[1],
        BLOCK_IN=tiling.block_in,
        BLOCK_OUT=tiling.block_out,
        PIECE=LINES_AT_ONCE,
    )
    sizes = [shape.width_in * shape.width_out // shape.groups for shape in shapes]
    return [
        part.view(shape.groups, shape.width_in // shape.groups, shape.width_out // shape.groups)
        for part, shape in zip(sums.split(sizes), shapes, strict=True)
    ]


def _aligned(rows: Tensor) -> Tensor:
    """A view may begin anywhere; the kernel takes 16 bytes at a time."""
    return rows if rows.data_ptr() % 16 == 0 else rows.clone()


@functools.cache
def _tiles(
    shapes: tuple[MapShape, ...], tiling: Tiling, device: torch.device
) -> tuple[Tensor, int, int, int]:
    """Where every tile lies, how many there are, entries of all gradients, alignment of rows."""
    aligned = WIDEST_LOAD
    while any(shape.row_width % aligned or shape.width_out % aligned for shape in shapes):
        aligned //= 2
    tiles, place = [], 0
    for layer, shape in enumerate(shapes):
        chunks = (shape.width_in // shape.groups, shape.width_out // shape.groups)
        tiles += [
            (layer, shape.row_width, shape.width_out, *corner, *chunks, *limits, place)
            for corner, limits in _tiles_of_map(*chunks, shape.groups, tiling, aligned)
        ]
        place += shape.width_in * chunks[1]
    return torch.tensor(tiles, dtype=torch.int32).to(device), len(tiles), place, aligned


def _tiles_of_map(
    chunk_in: int, chunk_out: int, groups: int, tiling: Tiling, aligned: int
) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """First feature in and out of each tile, and the range of features in and out it stands for.

    Neighbouring groups that fit into one tile together share it.
    """
    shared = 1
    while (
        groups % (2 * shared) == 0
        and 2 * shared * chunk_in <= tiling.block_in
        and 2 * shared * chunk_out <= tiling.block_out
    ):
        shared *= 2
    tiles = []
    for group in range(0, groups, shared):
        limits_in = (group * chunk_in, (group + shared) * chunk_in)
        limits_out = (group * chunk_out, (group + shared) * chunk_out)
        tiles += [
            ((first_in, first_out), (*limits_in, *limits_out))
            for first_in in _starts(*limits_in, tiling.block_in, aligned)
            for first_out in _starts(*limits_out, tiling.block_out, aligned)
        ]
    return tiles


def _starts(start: int, end: int, block: int, aligned: int) -> range:
    """Where blocks that cover `start` to `end` begin, each at a multiple of `aligned`."""
    return range(start // aligned * aligned, end, block)

"""All weight gradients of a DeFINE unit in one launch, on a GPU's 16-bit tensor cores.

Each gradient is a product over all tokens, and has too few entries to fill a GPU by itself. So the
tokens are split too: each program adds up one tile of one map's gradient over some of the tokens,
and a second kernel adds the programs' sums in a fixed order. Tiles that hold nothing of a map's
diagonal blocks aren't computed.

Rows are read from the full width of a tensor, wherever a group begins, which keeps the loads wide
also for groups whose width isn't a multiple of eight.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from onmt_define.embeddings.weight_gradient_tiles import (
    MapShape,
    Tile,
    Tiling,
    alignment,
    tiles_on,
)

# Lines of a tile that one program adds up over the splits.
LINES_AT_ONCE = 16
# Fewer rows than this aren't worth a split.
FEWEST_ROWS = 256


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
    """Add up one tile's products (BLOCK_IN, BLOCK_OUT) over the `rows_each` rows of one split.

    rows_in and rows_out are tuples of each map's (count, row width), tiles is (tiles, FIELDS) as in
    `Tile`, and partial_sums (splits, tiles, BLOCK_IN, BLOCK_OUT) in float32.
    """
    tile, split = tl.program_id(0) % tile_count, tl.program_id(0) // tile_count
    fields = tiles + tile * FIELDS
    map_index = tl.load(fields)
    stride_in = tl.multiple_of(tl.load(fields + 1), ALIGNED)
    stride_out = tl.multiple_of(tl.load(fields + 2), ALIGNED)
    column_in = tl.multiple_of(tl.load(fields + 3), ALIGNED) + tl.arange(0, BLOCK_IN)
    column_out = tl.multiple_of(tl.load(fields + 4), ALIGNED) + tl.arange(0, BLOCK_OUT)
    # A tuple of pointers can't be indexed by a number that only the GPU knows.
    source_in, source_out = rows_in[0], rows_out[0]
    for index in tl.static_range(1, len(rows_in)):
        source_in = tl.where(map_index == index, rows_in[index], source_in)
        source_out = tl.where(map_index == index, rows_out[index], source_out)

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
def _sum_splits_kernel(
    partial_sums,
    result,
    tiles,
    splits,
    FIELDS: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    PIECE: tl.constexpr,
):
    """Add up `PIECE` lines of one tile over the splits, and put them where the gradient is.

    result is the gradients of all maps, one after the other, each (groups, chunk in, chunk out).
    """
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
        tiling: `weight_gradient_tiles.choose_tiling` says which.

    Returns:
        Of each map (groups, width_in / groups, width_out / groups), in the type of `rows_in`.
    """
    rows_in, rows_out = ([_aligned(rows) for rows in side] for side in (rows_in, rows_out))
    tiles = tiles_on(tuple(shapes), tiling, rows_in[0].device)
    partial_sums = _partial_sums(rows_in, rows_out, tiles, alignment(shapes), tiling)
    entries = [shape.entries for shape in shapes]
    result = rows_in[0].new_empty(sum(entries))
    _sum_splits_kernel[(len(tiles), tiling.block_in // LINES_AT_ONCE)](
        partial_sums,
        result,
        tiles,
        len(partial_sums),
        FIELDS=len(Tile._fields),
        BLOCK_IN=tiling.block_in,
        BLOCK_OUT=tiling.block_out,
        PIECE=LINES_AT_ONCE,
    )
    parts = zip(result.split(entries), shapes, strict=True)
    return [part.view(shape.gradient) for part, shape in parts]


def _partial_sums(
    rows_in: list[Tensor], rows_out: list[Tensor], tiles: Tensor, aligned: int, tiling: Tiling
) -> Tensor:
    """Every tile's sums over each split of the rows, (splits, tiles, block_in, block_out)."""
    count = rows_in[0].shape[0]
    rows_each = _rows_each(count, len(tiles), tiling, rows_in[0].device)
    splits = triton.cdiv(count, rows_each)
    shape = (splits, len(tiles), tiling.block_in, tiling.block_out)
    sums = rows_in[0].new_empty(shape, dtype=torch.float32)
    _tile_kernel[(splits * len(tiles),)](
        tuple(rows_in),
        tuple(rows_out),
        sums,
        tiles,
        count,
        rows_each,
        len(tiles),
        FIELDS=len(Tile._fields),
        ALIGNED=aligned,
        BLOCK_IN=tiling.block_in,
        BLOCK_OUT=tiling.block_out,
        BLOCK_ROWS=tiling.block_rows,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
    )
    return sums


def _rows_each(count: int, tile_count: int, tiling: Tiling, device: torch.device) -> int:
    """Rows of one split: as many splits as keep all processors busy at once."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    splits = processors * tiling.programs_each // tile_count
    splits = max(1, min(splits, triton.cdiv(count, FEWEST_ROWS)))
    return triton.cdiv(triton.cdiv(count, splits), tiling.block_rows) * tiling.block_rows


def _aligned(rows: Tensor) -> Tensor:
    """A view may begin anywhere; the kernel takes 16 bytes at a time."""
    return rows if rows.data_ptr() % 16 == 0 else rows.clone()

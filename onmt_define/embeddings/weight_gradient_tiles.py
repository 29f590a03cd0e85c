"""How the weight gradients of a DeFINE unit's maps are cut into tiles, one for each program.

A map's full gradient, (features in, features out), holds those of its groups as diagonal blocks.
Tiles cover the blocks and as little else as they can.
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

# Entries that one load of a thread brings at most: 16 bytes.
WIDEST_LOAD = 8
# Up to this many entries of all gradients together, a large tile is faster.
FEW_ENTRIES = 1 << 19


@dataclass(frozen=True)
class Tiling:
    """Sizes of the tile of one program, and how a GPU's processor runs it."""

    block_in: int = 128
    block_out: int = 128
    block_rows: int = 64
    warps: int = 4
    stages: int = 3
    # Programs for each of the GPU's processors: as many as its shared memory holds at once.
    programs_each: int = 2

    @property
    def shared_memory(self) -> int:
        """Bytes that the rows on their way from memory take, two to an entry."""
        return 2 * self.stages * self.block_rows * (self.block_in + self.block_out)


# On an H200 59 us against 64 for the unit n=128, k=1024, m=512, N=3; 156 against 146 for 384, 1024,
# 384, 7.
LARGE_TILES = Tiling(block_out=256, warps=8, programs_each=1)
SMALL_TILES = Tiling()


@dataclass(frozen=True)
class MapShape:
    """Widths of a map: features in and out, groups, and of the rows that hold the features in."""

    width_in: int
    width_out: int
    groups: int
    row_width: int

    @property
    def gradient(self) -> tuple[int, int, int]:
        """Shape of the gradient: groups, features in and out of each."""
        return self.groups, self.width_in // self.groups, self.width_out // self.groups

    @property
    def entries(self) -> int:
        """Entries of the gradient."""
        return self.width_in * self.width_out // self.groups


class Tile(NamedTuple):
    """One program's share, in the order in which the kernels read it."""

    map: int
    # Of the rows in and out.
    row_width_in: int
    row_width_out: int
    # First features of the tile; aligned, so they may lie before those it stands for.
    first_in: int
    first_out: int
    # Features of one group.
    chunk_in: int
    chunk_out: int
    # Features that the tile stands for; the ends are the first that it doesn't.
    start_in: int
    end_in: int
    start_out: int
    end_out: int
    # Where the map's gradient begins among all.
    place: int


def choose_tiling(shapes: list[MapShape], shared_memory: int) -> Tiling | None:
    """The fastest tiling of those measured that fits `shared_memory` bytes; None: none does."""
    few = sum(shape.entries for shape in shapes) <= FEW_ENTRIES
    candidates = [LARGE_TILES, SMALL_TILES] if few else [SMALL_TILES]
    return next((each for each in candidates if each.shared_memory <= shared_memory), None)


def alignment(shapes: list[MapShape]) -> int:
    """Entries that can be loaded at once wherever a row begins: a power of two up to 8."""
    aligned = WIDEST_LOAD
    while any(shape.row_width % aligned or shape.width_out % aligned for shape in shapes):
        aligned //= 2
    return aligned


def plan_tiles(shapes: list[MapShape], tiling: Tiling) -> list[Tile]:
    """Tiles that cover every entry of every map's gradient once."""
    tiles, place, aligned = [], 0, alignment(shapes)
    for index, shape in enumerate(shapes):
        tiles += _tiles_of_map(index, shape, place, tiling, aligned)
        place += shape.entries
    return tiles


@functools.cache
def tiles_on(shapes: tuple[MapShape, ...], tiling: Tiling, device: torch.device) -> Tensor:
    """The plan as (tiles, fields) on a device, kept there."""
    return torch.tensor(plan_tiles(list(shapes), tiling), dtype=torch.int32).to(device)


def _tiles_of_map(
    index: int, shape: MapShape, place: int, tiling: Tiling, aligned: int
) -> list[Tile]:
    _, chunk_in, chunk_out = shape.gradient
    shared = _groups_a_tile(shape, tiling)
    tiles = []
    for group in range(0, shape.groups, shared):
        range_in = (group * chunk_in, (group + shared) * chunk_in)
        range_out = (group * chunk_out, (group + shared) * chunk_out)
        rows = (index, shape.row_width, shape.width_out)
        tiles += [
            Tile(*rows, *corner, chunk_in, chunk_out, *range_in, *range_out, place)
            for corner in _corners(range_in, range_out, tiling, aligned)
        ]
    return tiles


def _groups_a_tile(shape: MapShape, tiling: Tiling) -> int:
    """How many neighbouring groups fit into one tile together, as a power of two."""
    groups, chunk_in, chunk_out = shape.gradient
    shared = 1
    while (
        groups % (2 * shared) == 0
        and 2 * shared * chunk_in <= tiling.block_in
        and 2 * shared * chunk_out <= tiling.block_out
    ):
        shared *= 2
    return shared


def _corners(
    range_in: tuple[int, int], range_out: tuple[int, int], tiling: Tiling, aligned: int
) -> list[tuple[int, int]]:
    """First features in and out of the tiles that cover both ranges, multiples of `aligned`."""
    return [
        (first_in, first_out)
        for first_in in range(range_in[0] // aligned * aligned, range_in[1], tiling.block_in)
        for first_out in range(range_out[0] // aligned * aligned, range_out[1], tiling.block_out)
    ]

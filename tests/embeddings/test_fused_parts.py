"""The parts of the fused unit that run without a GPU: its GELU, chunks and tiles."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onmt_define.embeddings.fused_unit import _aligned_chunks
from onmt_define.embeddings.short_gelu import DERIVATIVE, EXPONENT, LARGEST_SQUARE
from onmt_define.embeddings.weight_gradient_tiles import (
    LARGE_TILES,
    SMALL_TILES,
    MapShape,
    Tiling,
    alignment,
    choose_tiling,
    plan_tiles,
)


def polynomial(square, coefficients):
    first, third, fifth = coefficients
    return first + square * (third + square * fifth)


def short_gelu(x):
    """Value and slope as the kernels compute them."""
    square = (x * x).clamp(max=LARGEST_SQUARE)
    cumulative = 1 / (1 + torch.exp2(-x * polynomial(square, EXPONENT)))
    slope = (cumulative - cumulative * cumulative) * x * polynomial(square, DERIVATIVE)
    return x * cumulative, cumulative + slope


def exact_gelu(x):
    cumulative = 0.5 * torch.erfc(-x / math.sqrt(2))
    return x * cumulative, cumulative + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def half_step_of_bfloat16(values):
    return torch.exp2(values.abs().log2().floor() - 8)


@pytest.fixture(scope="module")
def points():
    return torch.linspace(-30, 30, 600_001, dtype=torch.float64)


def test_short_gelu_is_as_near_as_it_says(points):
    for ours, exact, error in zip(
        short_gelu(points), exact_gelu(points), (2.6e-5, 1.1e-4), strict=True
    ):
        assert (ours - exact).abs().max() < error


def test_short_gelu_errs_by_less_than_rounding_where_it_says(points):
    for ours, exact, smallest in zip(
        short_gelu(points), exact_gelu(points), (1 / 128, 1 / 32), strict=True
    ):
        large = exact.abs() >= smallest
        assert ((ours - exact).abs() < half_step_of_bfloat16(exact))[large].all()
    value, exact = short_gelu(points)[0], exact_gelu(points)[0]
    near = (points > -2.7) & (points != 0)
    assert ((value - exact).abs() < half_step_of_bfloat16(exact))[near].all()


def test_short_gelus_slope_is_its_own(points):
    points = points[points**2 < LARGEST_SQUARE].requires_grad_()
    value, slope = short_gelu(points)
    (expected,) = torch.autograd.grad(value.sum(), points)
    torch.testing.assert_close(slope.detach(), expected, rtol=1e-9, atol=1e-12)


@given(
    log_groups=st.integers(1, 4),
    chunk_in=st.integers(9, 90),
    chunk_out=st.integers(1, 20),
    count=st.integers(1, 5),
)
def test_aligned_chunks_give_each_groups_product(log_groups, chunk_in, chunk_out, count):
    groups = 2**log_groups
    # Wider chunks end with the row: the product is right whether or not that is aligned.
    rows = torch.randn(count, groups * chunk_in, dtype=torch.float64)
    kernel = torch.randn(groups, chunk_in, chunk_out, dtype=torch.float64)
    chunks, padded = _aligned_chunks(rows, kernel)
    assert chunks.stride(0) % 8 == 0
    assert chunks.data_ptr() == rows.data_ptr()
    expected = torch.einsum("rgi,gio->gro", rows.view(count, groups, chunk_in), kernel)
    torch.testing.assert_close(torch.bmm(chunks, padded), expected)


shapes = st.builds(
    lambda log_groups, chunk_in, chunk_out, more: (
        MapShape(
            2**log_groups * chunk_in,
            2**log_groups * chunk_out,
            2**log_groups,
            2**log_groups * chunk_in,
        )
        if log_groups
        else MapShape(chunk_in, chunk_out, 1, chunk_in + more)
    ),
    st.integers(0, 4),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(0, 8),
)


@given(st.lists(shapes, min_size=1, max_size=3), st.sampled_from([16, 64]))
def test_tiles_cover_every_entry_once(shapes, block):
    tiling = Tiling(block_in=block, block_out=32)
    found = [torch.zeros(shape.gradient, dtype=torch.int) for shape in shapes]
    places = [0]
    for shape in shapes:
        places.append(places[-1] + shape.entries)
    for tile in plan_tiles(shapes, tiling):
        shape = shapes[tile.map]
        assert (tile.row_width_in, tile.row_width_out) == (shape.row_width, shape.width_out)
        assert tile.place == places[tile.map]
        assert tile.first_in % alignment(shapes) == tile.first_out % alignment(shapes) == 0
        for i in range(max(tile.first_in, tile.start_in), min(tile.first_in + block, tile.end_in)):
            group = i // tile.chunk_in
            start = max(tile.first_out, tile.start_out, group * tile.chunk_out)
            end = min(tile.first_out + 32, tile.end_out, (group + 1) * tile.chunk_out)
            if start < end:
                columns = slice(start - group * tile.chunk_out, end - group * tile.chunk_out)
                found[tile.map][group, i % tile.chunk_in, columns] += 1
    assert all((counts == 1).all() for counts in found)


def test_tilings_are_chosen_by_size_and_by_what_the_card_holds():
    few, many = MapShape(704, 512, 1, 712), MapShape(1296, 512, 1, 1304)
    assert choose_tiling([few], 232_448) == LARGE_TILES
    assert choose_tiling([few], 101_376) == SMALL_TILES
    assert choose_tiling([many], 232_448) == SMALL_TILES
    assert choose_tiling([few], 65_536) is None

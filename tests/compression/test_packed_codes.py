"""Packing of codes: nothing is lost, no bit is wasted inside a row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onmt_define.embeddings.packed_codes import bits_per_code, bytes_per_row, pack, unpack


@given(st.data(), st.integers(0, 20), st.integers(1, 40), st.integers(2, 1 << 16))
def test_codes_survive_packing(data, rows, count, codes):
    seed = data.draw(st.integers(0, 1000))
    numbers = torch.randint(codes, (rows, count), generator=torch.Generator().manual_seed(seed))
    bits = bits_per_code(codes)
    packed = pack(numbers, bits)
    assert packed.dtype == torch.uint8
    assert packed.shape == (rows, (count * bits + 7) // 8)
    assert torch.equal(unpack(packed, count, bits), numbers)


def test_the_layout_is_the_documented_one():
    assert pack(torch.tensor([[1, 2, 15, 0]]), 4).tolist() == [[0x21, 0x0F]]
    assert pack(torch.tensor([[0b101, 0b011, 0b110]]), 3).tolist() == [[0b10_011_101, 0b1]]


@pytest.mark.parametrize(("codes", "bits"), [(2, 1), (3, 2), (16, 4), (17, 5), (256, 8), (257, 9)])
def test_bits(codes, bits):
    assert bits_per_code(codes) == bits


def test_sixteen_codes_take_exactly_four_bits():
    assert bytes_per_row(32, bits_per_code(16)) == 16
    assert 267_735 * bytes_per_row(32, 4) == 4_283_760

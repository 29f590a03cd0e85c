"""The layer that decodes: sums of codewords, no table, and refusals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from onmt_define.embeddings import CompressedEmbedding, DimensionError


def random_layer(rows, width, codebooks, codes, padding_idx=None):
    codewords = torch.randn(codebooks * codes, width)
    numbers = torch.randint(codes, (rows, codebooks))
    layer = CompressedEmbedding(rows, width, codebooks, codes, padding_idx=padding_idx)
    layer.set_codes(numbers, codewords)
    return layer, numbers, codewords


@given(
    st.integers(1, 30),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(2, 40),
    st.sampled_from([(), (0,), (7,), (3, 5), (2, 1, 4)]),
)
def test_a_vector_is_the_sum_of_its_codewords(rows, width, codebooks, codes, shape):
    layer, numbers, codewords = random_layer(rows, width, codebooks, codes)
    expected = torch.zeros(rows, width)
    for token in range(rows):
        for book in range(codebooks):
            expected[token] += codewords[book * codes + numbers[token, book]]
    tokens = torch.randint(rows, shape)
    vectors = layer(tokens)
    assert vectors.shape == (*shape, width)
    torch.testing.assert_close(vectors, expected[tokens])


def test_padding_is_zero_and_the_state_comes_back():
    layer, _, _ = random_layer(6, 4, 3, 5, padding_idx=1)
    assert not layer(torch.tensor([1])).any()
    assert layer(torch.tensor([0])).any()
    again = CompressedEmbedding(6, 4, 3, 5, padding_idx=1)
    again.load_state_dict(layer.state_dict())
    tokens = torch.arange(6)
    assert torch.equal(again(tokens), layer(tokens))


def test_half_precision_keeps_the_codes():
    layer, _, _ = random_layer(6, 4, 3, 5)
    exact = layer(torch.arange(6))
    half = layer.half()
    assert half.packed_codes.dtype == torch.uint8
    torch.testing.assert_close(half(torch.arange(6)).float(), exact, atol=0.01, rtol=0.01)


def test_no_table_is_held():
    """Beside codes and codewords, a look-up allocates in proportion to the tokens asked for."""
    layer, _, _ = random_layer(50_000, 64, 8, 16)
    assert sum(t.numel() * t.element_size() for t in layer.state_dict().values()) < 250_000
    with torch.profiler.profile(profile_memory=True) as profile, torch.inference_mode():
        layer(torch.arange(100))
    assert sum(max(0, event.self_cpu_memory_usage) for event in profile.events()) < 500_000
    assert 50_000 * 64 * 4 > 10_000_000


@pytest.mark.parametrize(
    ("sizes", "argument"),
    [
        ((0, 4, 2, 4), "num_embeddings"),
        ((5, 0, 2, 4), "embedding_dim"),
        ((5, 4, 0, 4), "codebooks"),
        ((5, 4, 2, 1), "codes"),
        ((5, 4, 2, (1 << 16) + 1), "codes"),
    ],
)
def test_sizes_that_can_not_be(sizes, argument):
    with pytest.raises(DimensionError) as caught:
        CompressedEmbedding(*sizes)
    assert caught.value.argument == argument


def test_it_is_a_plain_module_for_others():
    model = nn.Sequential(random_layer(6, 4, 3, 5)[0], nn.Linear(4, 2))
    model(torch.tensor([[1, 2]])).sum().backward()
    assert model[0].codewords.grad is not None

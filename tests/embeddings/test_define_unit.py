"""The DeFINE unit against the paper's printed counts and the rule that reproduces them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onmt_define import DefineEmbedding, DefineUnit
from onmt_define.embeddings import DimensionError, GroupLinear, ProjectiveEmbedding
from onmt_define.embeddings.define_unit import printed_widths
from onmt_define.embeddings.group_schedules import cyclic_groups
from onmt_define.embeddings.mixing import split_and_mix

# n, k, m, N, g_max, parameters: language-model rows of Tables 1a and 7 (units of the printed
# totals), the translation unit of Table 3, and a unit small enough to count by hand.
COUNTED_UNITS = [
    pytest.param(256, 1024, 256, 3, 16, 412_672, id="table1a-R3"),
    pytest.param(384, 1024, 384, 7, 16, 1_828_128, id="table1a-R4"),
    pytest.param(512, 1024, 512, 11, 16, 3_893_248, id="table1a-R5"),
    pytest.param(256, 1024, 256, 3, 8, 412_672, id="table7-N3-k1024"),
    pytest.param(256, 1536, 256, 3, 8, 544_256, id="table7-N3-k1536"),
    pytest.param(256, 2048, 256, 3, 8, 675_840, id="table7-N3-k2048"),
    pytest.param(384, 1024, 384, 7, 8, 2_100_128, id="table7-N7-k1024"),
    pytest.param(384, 1536, 384, 7, 8, 3_231_744, id="table7-N7-k1536"),
    pytest.param(384, 2048, 384, 7, 8, 4_557_152, id="table7-N7-k2048"),
    pytest.param(512, 1024, 512, 11, 8, 4_757_104, id="table7-N11-k1024"),
    pytest.param(512, 1536, 512, 11, 8, 7_227_024, id="table7-N11-k1536"),
    pytest.param(512, 2048, 512, 11, 8, 10_231_072, id="table7-N11-k2048"),
    pytest.param(384, 4096, 384, 3, 8, 1_911_808, id="table2"),
    pytest.param(128, 1024, 512, 3, 8, 440_704, id="table3"),
    pytest.param(8, 16, 6, 3, 4, 310, id="by-hand"),
]


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("n", "k", "m", "depth", "max_groups", "expected"), COUNTED_UNITS)
def test_parameter_count_of_the_paper(n, k, m, depth, max_groups, expected):
    with torch.device("meta"):
        assert count(DefineUnit(n, m, k, depth, max_groups)) == expected


def test_groups_are_cyclic_and_end_at_one():
    assert cyclic_groups(3, 8) == [4, 2, 1]
    assert cyclic_groups(7, 8) == [4, 2, 1, 8, 4, 2, 1]
    assert cyclic_groups(7, 16) == [2, 1, 16, 8, 4, 2, 1]
    assert cyclic_groups(11, 16) == [1, 16, 8, 4, 2, 1, 16, 8, 4, 2, 1]
    assert cyclic_groups(3, 1) == [1, 1, 1]


def test_widths_start_at_n_and_stop_short_of_k():
    assert printed_widths(384, 1024, 7, 16) == [384, 480, 592, 704, 800, 912]
    assert printed_widths(384, 1024, 7, 8) == [384, 488, 592, 704, 808, 912]
    assert printed_widths(512, 1024, 11, 16)[:4] == [512, 560, 608, 656]
    assert printed_widths(8, 16, 3, 4) == [8, 12]


def test_mixer_puts_each_input_chunk_before_its_hidden_chunk():
    x, h = torch.arange(8.0), torch.arange(100.0, 108.0)
    assert split_and_mix(x, h, 2).tolist() == [
        *(0, 1, 2, 3, 100, 101, 102, 103),
        *(4, 5, 6, 7, 104, 105, 106, 107),
    ]
    assert split_and_mix(x, h, 1).tolist() == [*range(8), *range(100, 108)]


def slow_unit(unit: DefineUnit, vector: torch.Tensor) -> torch.Tensor:
    """The unit on one token, written from its definition with loops over groups."""
    previous = None
    for index, linear in enumerate(unit.maps):
        groups = linear.groups
        if index == 0:
            inputs = vector
        else:
            mixed = []
            for group in range(groups):
                for part in (vector, previous):
                    size = len(part) // groups
                    mixed += part[group * size : (group + 1) * size].tolist()
            inputs = torch.tensor(mixed, dtype=vector.dtype)
            norm = unit.norms[index - 1]
            spread = (inputs.var(unbiased=False) + norm.eps).sqrt()
            inputs = (inputs - inputs.mean()) / spread * norm.weight + norm.bias
            inputs = torch.nn.functional.gelu(inputs)
        size = len(inputs) // groups
        outputs = [
            inputs[group * size : (group + 1) * size] @ linear.kernel[group]
            for group in range(groups)
        ]
        previous = torch.cat(outputs)
        if linear.bias is not None:
            previous = previous + linear.bias
    return previous


@given(
    max_groups=st.sampled_from([1, 2, 4, 8]),
    input_multiple=st.integers(1, 4),
    extra=st.integers(0, 40),
    output_dim=st.integers(1, 17),
    depth=st.integers(2, 7),
    seed=st.integers(0, 1000),
)
def test_unit_equals_loops_over_tokens_and_groups(
    max_groups, input_multiple, extra, output_dim, depth, seed
):
    torch.manual_seed(seed)
    input_dim = max_groups * input_multiple
    unit = DefineUnit(input_dim, output_dim, input_dim + extra, depth, max_groups).double().eval()
    for parameter in unit.parameters():
        torch.nn.init.normal_(parameter)
    tokens = torch.randn(2, 3, input_dim, dtype=torch.float64)
    expected = torch.stack([slow_unit(unit, token) for token in tokens.reshape(6, -1)])
    torch.testing.assert_close(
        unit(tokens), expected.reshape(2, 3, output_dim), rtol=1e-9, atol=1e-9
    )


def test_initial_output_is_neither_tiny_nor_huge():
    torch.manual_seed(0)
    for depth in (3, 7, 11):
        output = DefineUnit(128, 512, 1024, depth)(torch.randn(500, 128) / 128**0.5)
        assert 0.3 < output.std() < 2.0


def test_each_group_has_its_own_matrix_and_initial_scale():
    torch.manual_seed(0)
    linear = GroupLinear(1024, 512, 8)
    assert linear.kernel.shape == (8, 128, 64)
    assert linear.kernel.std().item() == pytest.approx((2 / (128 + 64)) ** 0.5, rel=0.02)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 3, 4)])
def test_embedding_takes_ids_of_any_shape(shape):
    embedding = DefineEmbedding(11, 6, 8, 16, 3, 4)
    assert embedding(torch.zeros(shape, dtype=torch.int64)).shape == (*shape, 6)


def test_padding_stays_zero_and_gets_no_gradient():
    embedding = DefineEmbedding(11, 6, 8, 16, 3, 4, padding_idx=1)
    for norm in embedding.unit.norms:
        torch.nn.init.ones_(norm.bias)
    output = embedding(torch.tensor([[1, 2], [3, 1]]))
    output.sum().backward()
    assert output[0, 0].abs().max() == 0
    assert output[0, 1].abs().max() > 0
    assert embedding.map_table.weight.grad[1].abs().max() == 0
    assert embedding.map_table.weight.grad[2].abs().max() > 0


def test_projective_embedding_is_table_times_matrix():
    embedding = ProjectiveEmbedding(11, 6, 4, padding_idx=1)
    assert count(embedding) == 11 * 4 + 4 * 6
    tokens = torch.tensor([[1, 2]])
    expected = embedding.map_table.weight[tokens] @ embedding.projection.weight.T
    torch.testing.assert_close(embedding(tokens), expected)
    assert embedding(tokens)[0, 0].abs().max() == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"input_dim": 100}, "input_dim is 100, expected a multiple of 8"),
        ({"input_dim": 100}, "for example 96 or 104"),
        ({"input_dim": 4}, "for example 8"),
        ({"input_dim": 0}, "input_dim is 0, expected a whole number of at least 1"),
        ({"output_dim": -3}, "output_dim is -3"),
        ({"depth": 1}, "depth is 1, expected a whole number of at least 2"),
        ({"depth": 2.5}, "depth is 2.5"),
        ({"max_groups": 6}, "max_groups is 6, expected a power of two, 4 or 8"),
        ({"expand_dim": 64}, "expand_dim is 64, expected a whole number of at least 128"),
    ],
)
def test_bad_sizes_are_named_with_what_would_fit(arguments, sentence):
    sizes = {"input_dim": 128, "output_dim": 512, "expand_dim": 1024, "depth": 3, "max_groups": 8}
    with pytest.raises(DimensionError) as error:
        DefineUnit(**{**sizes, **arguments})
    assert sentence in str(error.value)


def test_checkpoint_round_trip_is_safe_to_load(tmp_path):
    embedding = DefineEmbedding(11, 6, 8, 16, 3, 4)
    torch.save(embedding.state_dict(), tmp_path / "embedding.pt")
    other = DefineEmbedding(11, 6, 8, 16, 3, 4)
    other.load_state_dict(torch.load(tmp_path / "embedding.pt", weights_only=True))
    tokens = torch.arange(11)
    assert torch.equal(embedding(tokens), other(tokens))

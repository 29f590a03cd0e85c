"""The DeFINE unit against the paper's printed counts and the rule that reproduces them."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onmt_define import DefineUnit
from onmt_define.embeddings import DimensionError, GroupLinear
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


# Variants of n = m = 384, k = 1024, N = 7: the ablation rows of Tables 6 and 8, by hand the same.
COUNTED_VARIANTS = [
    pytest.param(1, {"schedule": "constant"}, 4_224_736, id="table6a-linear"),
    pytest.param(4, {"schedule": "constant"}, 1_063_296, id="table6a-glt"),
    pytest.param(4, {"schedule": "constant", "shuffle": True}, 1_063_296, id="table6a-shuffle"),
    pytest.param(8, {}, 2_100_128, id="table6-hgt-as-counted"),
    pytest.param(32, {"schedule": "halving"}, 2_259_072, id="table6b-define"),
    pytest.param(32, {"schedule": "halving", "mix": "concat"}, 2_259_072, id="table8a-no-mixer"),
    pytest.param(16, {"reduce": False}, 2_658_208, id="table8b-no-reduce"),
    pytest.param(8, {"mix": "residual"}, 2_994_560, id="table8a-residual"),
]


@pytest.mark.parametrize(("n", "k", "m", "depth", "max_groups", "expected"), COUNTED_UNITS)
def test_parameter_count_of_the_paper(n, k, m, depth, max_groups, expected):
    with torch.device("meta"):
        assert count(DefineUnit(n, m, k, depth, max_groups)) == expected


@pytest.mark.parametrize(("max_groups", "variant", "expected"), COUNTED_VARIANTS)
def test_parameter_count_of_an_ablation(max_groups, variant, expected):
    with torch.device("meta"):
        assert count(DefineUnit(384, 384, 1024, 7, max_groups, **variant)) == expected


def test_literal_widths_are_those_of_the_text():
    unit = DefineUnit(128, 512, 1024, 7, 32, widths="literal")
    assert unit.widths == [256, 384, 512, 640, 768, 896, 1024, 512]
    assert unit.groups == [32, 16, 8, 4, 2, 1, 1, 1]
    assert unit.maps[-1].in_features == 1024
    assert DefineUnit(128, 512, 1024, 7, 32, widths="literal", reduce=False).output_dim == 1024


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


@pytest.mark.parametrize("max_groups", [8, 16])
def test_variances_at_the_start_are_those_of_dense_maps_even_at_depth_11(max_groups):
    variances = {}
    for groups, schedule in ((max_groups, "cyclic"), (1, "constant")):
        torch.manual_seed(0)
        tokens = (torch.randn(500, 512) / 512**0.5).requires_grad_()
        output = DefineUnit(512, 512, 1024, 11, groups, schedule=schedule)(tokens)
        output.backward(torch.randn_like(output))
        variances[schedule] = output.var().item(), tokens.grad.var().item()
    for grouped, dense in zip(*variances.values(), strict=True):
        assert 1 / 3 < grouped / dense < 3


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
        ({"max_groups": 6}, "max_groups is 6, expected a power of two, for example 4 or 8"),
        ({"expand_dim": 64}, "expand_dim is 64, expected a whole number of at least 128"),
        ({"expand_dim": 10**15}, f"expand_dim is {10**15}, expected at most 65536"),
        ({"schedule": "cyclc"}, "schedule is 'cyclc', expected one of cyclic, halving, constant"),
        ({"schedule": 0}, "schedule is 0, expected one of"),
        ({"reduce": "no"}, "reduce is 'no', expected one of True, False"),
        ({"shuffle": None}, "shuffle is None, expected one of True, False"),
        ({"mix": None}, "mix is None, expected one of split, concat, none, residual"),
        ({"widths": 3}, "widths is 3, expected one of printed, literal"),
        ({"norm": "batch"}, "norm is 'batch', expected one of layer, none"),
        ({"activation": "swish"}, "activation is 'swish', expected one of tanh, gelu, silu, relu,"),
        ({"dropout": 1.5}, "dropout is 1.5, expected a number from 0"),
        ({"dropout": float("nan")}, "dropout is nan"),
        (
            {"schedule": "constant", "output_dim": 510},
            "output_dim is 510, expected a multiple of 8 (the groups of the last map), for example "
            "504 or 512",
        ),
        (
            {"schedule": "constant", "expand_dim": 1001, "reduce": False},
            "expand_dim is 1001, expected a multiple of 8",
        ),
    ],
)
def test_bad_sizes_are_named_with_what_would_fit(arguments, sentence):
    sizes = {"input_dim": 128, "output_dim": 512, "expand_dim": 1024, "depth": 3, "max_groups": 8}
    with pytest.raises(DimensionError) as error:
        DefineUnit(**{**sizes, **arguments})
    assert sentence in str(error.value)


@given(
    mix=st.sampled_from(["split", "concat", "none", "residual"]),
    tokens=st.integers(1, 9),
    seed=st.integers(0, 100),
)
def test_permuted_tokens_give_permuted_outputs(mix, tokens, seed):
    torch.manual_seed(seed)
    unit, order = DefineUnit(8, 6, 24, 3, 4, mix=mix), torch.randperm(tokens)
    vectors = torch.randn(tokens, 8)
    torch.testing.assert_close(unit(vectors)[order], unit(vectors[order]))


def dependence(unit, n):
    """Which outputs (rows) change with which inputs (columns)."""
    return torch.func.jacrev(unit)(torch.randn(n, dtype=torch.float64)) != 0


@given(depth=st.integers(2, 6), seed=st.integers(0, 100))
def test_with_the_mixer_every_output_depends_on_every_input(depth, seed):
    torch.manual_seed(seed)
    assert dependence(DefineUnit(16, 10, 32, depth, 8).double(), 16).all()


@given(groups=st.sampled_from([2, 4]), depth=st.integers(2, 5), seed=st.integers(0, 100))
def test_constant_groups_without_link_see_only_their_own_inputs(groups, depth, seed):
    torch.manual_seed(seed)
    options = {"schedule": "constant", "mix": "none", "norm": "none"}
    unit = DefineUnit(8, 12, 24, depth, groups, **options).double()
    expected = torch.block_diag(*[torch.ones(12 // groups, 8 // groups)] * groups).bool()
    assert torch.equal(dependence(unit, 8), expected)
    options["shuffle"] = True
    shuffled = dependence(DefineUnit(8, 12, 24, depth, groups, **options).double(), 8)
    assert shuffled.sum() > expected.sum()


def test_copies_and_state_round_trips_give_the_same_outputs(tmp_path):
    unit, vectors = DefineUnit(16, 10, 32, 3), torch.randn(5, 16)
    assert torch.equal(copy.deepcopy(unit)(vectors), unit(vectors))
    torch.save(unit.state_dict(), tmp_path / "unit.pt")
    other = DefineUnit(16, 10, 32, 3)
    other.load_state_dict(torch.load(tmp_path / "unit.pt", weights_only=True))
    assert torch.equal(other(vectors), unit(vectors))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_gives_nearly_the_same(dtype):
    torch.manual_seed(0)
    unit, vectors = DefineUnit(64, 32, 128, 3), torch.randn(50, 64)
    with torch.autocast("cpu", dtype=dtype):
        lowered = unit(vectors)
    assert lowered.dtype == dtype
    assert (lowered.float() - unit(vectors)).abs().max() < 0.1


# Tracing is what a module can break; torch's own C++ compilation fails below a path with a space.
@pytest.mark.slow
@pytest.mark.parametrize("mix", ["split", "residual"])
def test_compiled_and_exported_units_give_the_same(mix):
    torch.manual_seed(0)
    unit, vectors = DefineUnit(16, 10, 32, 3, mix=mix, shuffle=True), torch.randn(4, 5, 16)
    compiled = torch.compile(unit, fullgraph=True, dynamic=True, backend="aot_eager")
    torch.testing.assert_close(compiled(vectors), unit(vectors))
    compiled(vectors).sum().backward()
    batch = torch.export.Dim("batch")
    exported = torch.export.export(unit, (vectors,), dynamic_shapes=({0: batch},)).module()
    torch.testing.assert_close(exported(vectors[:3]), unit(vectors[:3]))

"""The unit against an independent slow version: outputs and all gradients, every variant."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_unit import reference_sizes, reference_unit

from onmt_define import DefineUnit

VARIANTS = st.fixed_dictionaries(
    {
        "mix": st.sampled_from(["split", "concat", "none", "residual"]),
        "widths": st.sampled_from(["printed", "literal"]),
        "norm": st.sampled_from(["layer", "none"]),
        "activation": st.sampled_from(["tanh", "gelu", "silu", "relu", "none"]),
        "reduce": st.booleans(),
        "shuffle": st.booleans(),
    }
)


@st.composite
def sizes(draw):
    """(n, m, k, N, g_max, schedule) of a unit small enough for loops over features."""
    schedule = draw(st.sampled_from(["cyclic", "halving", "constant"]))
    max_groups = draw(st.sampled_from([1, 2, 3, 4] if schedule == "constant" else [1, 2, 4]))
    n = max_groups * draw(st.integers(1, 3))
    # Only a cyclic schedule always ends in a dense map, for which every width fits.
    multiple = 1 if schedule == "cyclic" else max_groups
    m, k = multiple * draw(st.integers(1, 6)), n + multiple * draw(st.integers(0, 8))
    return n, m, k, draw(st.integers(2, 4)), max_groups, schedule


def relative_error(ours, expected):
    # A norm over one feature has no gradient at all: what should be zero is compared with one.
    return ((ours.double() - expected).norm() / expected.norm().clamp(min=1)).item()


def check_against_reference(size, variant, dtype, tolerance, seed):
    torch.manual_seed(seed)
    n, m, k, depth, max_groups, schedule = size
    unit = DefineUnit(n, m, k, depth, max_groups, schedule=schedule, **variant)
    for parameter in unit.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    tokens = torch.randn(2, 2, n)
    unit, tokens = unit.to(dtype), tokens.to(dtype).requires_grad_()

    slow, slow_tokens = copy.deepcopy(unit).double(), tokens.detach().double().requires_grad_()
    shapes = reference_sizes(
        n, m, k, depth, max_groups, schedule, variant["mix"], variant["widths"], variant["reduce"]
    )
    options = {key: variant[key] for key in ("mix", "norm", "activation", "shuffle")}
    rows = [reference_unit(slow, row, shapes, **options) for row in slow_tokens.reshape(-1, n)]
    expected = torch.stack(rows)
    expected = expected.reshape(2, 2, -1)
    direction = torch.randn(expected.shape, dtype=torch.float64)
    (expected * direction).sum().backward()

    output = unit(tokens)
    (output * direction.to(dtype)).sum().backward()
    assert output.shape == expected.shape
    assert relative_error(output, expected) < tolerance
    assert relative_error(tokens.grad, slow_tokens.grad) < tolerance
    for (name, ours), theirs in zip(unit.named_parameters(), slow.parameters(), strict=True):
        assert relative_error(ours.grad, theirs.grad) < tolerance, name


@settings(max_examples=30)
@given(size=sizes(), variant=VARIANTS, seed=st.integers(0, 1000))
def test_outputs_and_gradients_equal_the_slow_version_in_float64(size, variant, seed):
    check_against_reference(size, variant, torch.float64, 1e-10, seed)


@settings(max_examples=10)
@given(size=sizes(), seed=st.integers(0, 1000))
def test_outputs_and_gradients_equal_the_slow_version_in_float32(size, seed):
    variant = {
        "mix": "split",
        "widths": "printed",
        "norm": "none",
        "activation": "gelu",
        "reduce": True,
        "shuffle": False,
    }
    check_against_reference(size, variant, torch.float32, 1e-5, seed)


@pytest.mark.parametrize("n", [8, 16])
def test_float32_with_norm_equals_the_slow_version(n):
    variant = {
        "mix": "split",
        "widths": "printed",
        "norm": "layer",
        "activation": "gelu",
        "reduce": True,
        "shuffle": False,
    }
    check_against_reference((n, 6, 24, 3, 4, "cyclic"), variant, torch.float32, 1e-5, seed=n)


@pytest.mark.parametrize("mix", ["split", "concat", "none", "residual"])
def test_gradcheck(mix):
    torch.manual_seed(0)
    unit = DefineUnit(4, 3, 8, 3, 2, mix=mix).double()
    weights = list(unit.parameters())
    tokens = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in unit.named_parameters()]

    def run(tokens, *values):
        return torch.func.functional_call(unit, dict(zip(names, values, strict=True)), (tokens,))

    assert torch.autograd.gradcheck(run, (tokens, *weights))

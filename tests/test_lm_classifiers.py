"""The adaptive softmax is a probability distribution, and what it computes is what it says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from onmt_define.lm import aligned
from onmt_define.lm.classifiers import AdaptiveSoftmax, Softmax


def parameter(*shape):
    return nn.Parameter(torch.randn(*shape))


def narrowing(hidden_dim=8, bias=False):
    """Bands of 4, 3 and 5 tokens with vectors of 8, 4 and 2 numbers."""
    tables = [parameter(4, 8), parameter(3, 4), parameter(5, 2)]
    projections = [None, parameter(hidden_dim, 4), parameter(hidden_dim, 2)]
    return AdaptiveSoftmax(tables, projections, [4, 7], bias)


def single(bias=True):
    """The same bands cut out of one table, each behind a projection."""
    projections = [parameter(8, 6), parameter(8, 6), parameter(8, 6)]
    classifier = AdaptiveSoftmax([parameter(12, 6)], projections, [4, 7], bias)
    with torch.no_grad():
        classifier.bias.normal_()
        classifier.cluster_bias.normal_()
    return classifier


@pytest.mark.parametrize("make", [narrowing, single])
def test_probabilities_of_all_tokens_add_up_to_one(make):
    torch.manual_seed(1)
    classifier, hidden = make(), torch.randn(5, 8)
    every = torch.arange(12).expand(5, 12)
    losses = classifier(hidden[:, None].expand(5, 12, 8), every)
    torch.testing.assert_close(losses.neg().exp().sum(1), torch.ones(5))


@pytest.mark.parametrize("make", [narrowing, single])
def test_loss_is_that_of_the_band_and_of_the_token_in_it(make):
    torch.manual_seed(1)
    classifier, hidden = make(), torch.randn(8)
    tables = list(classifier.tables)
    tables = tables if len(tables) > 1 else tables[0].split([4, 3, 5])
    biases = [torch.zeros(n) for n in (4, 3, 5)]
    clusters = torch.zeros(2)
    if classifier.bias is not None:
        biases, clusters = classifier.bias.split([4, 3, 5]), classifier.cluster_bias

    def project(band):
        matrix = getattr(classifier, f"projection{band}")
        return hidden if matrix is None else hidden @ matrix

    head = torch.cat(
        [tables[0] @ project(0) + biases[0], classifier.clusters @ project(0) + clusters]
    )
    band = (tables[2] @ project(2) + biases[2]).log_softmax(0)
    expected = -(head.log_softmax(0)[5] + band[9 - 7])
    torch.testing.assert_close(classifier(hidden[None], torch.tensor([9]))[0], expected)


@given(st.lists(st.integers(0, 11), min_size=1, max_size=30))
def test_known_sizes_of_the_bands_change_nothing(targets):
    torch.manual_seed(1)
    classifier, hidden = single(), torch.randn(len(targets), 8, requires_grad=True)
    targets = torch.tensor(targets)
    sizes = [
        ((targets >= low) & (targets < high)).sum().item()
        for low, high in ((0, 4), (4, 7), (7, 12))
    ]
    losses = classifier(hidden, targets, sizes)
    torch.testing.assert_close(losses, classifier(hidden, targets))
    losses.sum().backward()
    # All parts have gradients, also bands without a token: several GPUs add them up.
    assert all(part.grad is not None for part in classifier.parameters())


def test_a_band_is_computed_for_its_own_tokens_alone():
    torch.manual_seed(1)
    classifier, hidden = single(), torch.randn(3, 8, requires_grad=True)
    classifier(hidden, torch.tensor([1, 2, 3])).sum().backward()
    assert classifier.projection1.grad.abs().sum() == 0
    assert classifier.tables[0].grad[4:].abs().sum() == 0


def test_softmax_is_the_usual_one_behind_a_projection():
    torch.manual_seed(1)
    classifier = Softmax(parameter(12, 6), parameter(8, 6), bias=True)
    hidden, targets = torch.randn(2, 3, 8), torch.randint(12, (2, 3))
    scores = hidden @ classifier.projection @ classifier.table.t() + classifier.bias
    expected = -scores.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(classifier(hidden, targets), expected)


@given(*[st.integers(1, 40)] * 3, st.booleans())
def test_zeros_behind_widths_change_no_linear_map(rows, width, out, has_bias):
    inputs, weight = torch.randn(rows, width), torch.randn(out, width)
    bias = torch.randn(out) if has_bias else None
    found = aligned.aligned_linear(inputs, weight, bias)
    assert found.shape[1] % aligned.ALIGNMENT == 0
    torch.testing.assert_close(
        found[:, :out], functional.linear(inputs, weight, bias), atol=1e-4, rtol=1e-4
    )
    assert not found[:, out:].any()

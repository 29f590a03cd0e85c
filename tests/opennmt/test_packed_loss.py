"""The loss whose gradient takes the place of the scores, against PyTorch's own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from onmt_define.opennmt.packed_training import loss
from onmt_define.opennmt.packed_training.loss import cross_entropy

PADDING = 1


def of_torch(scores, labels, label_smoothing):
    summed = functional.cross_entropy(
        scores, labels, ignore_index=PADDING, reduction="sum", label_smoothing=label_smoothing
    )
    right = (scores.argmax(-1) == labels) & (labels != PADDING)
    return summed, right.sum()


@given(
    tokens=st.integers(1, 12),
    vocabulary=st.integers(2, 30),
    label_smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    size=st.sampled_from([0.1, 1.0, 30.0]),
    at_once=st.integers(1, 400),
    seed=st.integers(0, 1000),
)
def test_loss_predictions_and_gradient_are_those_of_torch(
    tokens, vocabulary, label_smoothing, size, at_once, seed
):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, vocabulary, (tokens,), generator=generator)
    weights = torch.randn(4, vocabulary, generator=generator, dtype=torch.float64) * size
    gradients, results = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "SCORES_AT_ONCE", at_once)
        for function in (of_torch, lambda *given: cross_entropy(*given[:2], PADDING, given[2])):
            hidden = torch.randn(tokens, 4, generator=generator.manual_seed(seed)).double()
            hidden.requires_grad_()
            summed, right = function(hidden @ weights, labels, label_smoothing)
            (summed * 0.25).backward()
            results.append((float(summed.detach()), int(right)))
            gradients.append(hidden.grad)
    assert results[1] == pytest.approx(results[0], rel=1e-9, abs=1e-9)
    torch.testing.assert_close(gradients[1], gradients[0])


def test_a_layer_that_keeps_its_scores_is_not_given_a_wrong_gradient():
    hidden = torch.randn(3, 5, requires_grad=True)
    summed, _ = cross_entropy(hidden.tanh(), torch.tensor([0, 2, 3]), PADDING, 0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        summed.backward()


def test_padding_alone_has_no_loss_and_no_gradient():
    hidden = torch.randn(3, 5, requires_grad=True)
    summed, right = cross_entropy(hidden * 1, torch.full((3,), PADDING), PADDING, 0.1)
    summed.backward()
    assert (float(summed), int(right), float(hidden.grad.abs().max())) == (0, 0, 0)

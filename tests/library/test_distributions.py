"""Conversion from and to torch.distributions."""

import pytest
import torch
from torch import distributions as td

import hardmax as hm

LOGITS = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(
    ("distribution", "space", "scores"),
    [
        (td.OneHotCategorical(logits=LOGITS), hm.Categorical(3), LOGITS),
        (td.Categorical(logits=LOGITS), hm.Categorical(3), LOGITS),
        (td.OneHotCategorical(probs=LOGITS.softmax(-1)), hm.Categorical(3), LOGITS),
        (td.OneHotCategoricalStraightThrough(logits=LOGITS), hm.Categorical(3), LOGITS),
        (td.Independent(td.OneHotCategorical(logits=LOGITS), 1), hm.Categorical(3, 4), LOGITS),
        (td.Independent(td.Bernoulli(logits=LOGITS), 1), hm.Binary(3), LOGITS),
        (td.Independent(td.Bernoulli(probs=LOGITS.sigmoid()), 1), hm.Binary(3), LOGITS),
        (td.Bernoulli(logits=LOGITS), hm.Binary(1), LOGITS[..., None]),
        (td.Independent(td.OneHotCategorical(logits=LOGITS), 0), hm.Categorical(3), LOGITS),
    ],
    ids=str,
)
def test_from_distribution(distribution, space, scores):
    converted_space, converted_scores = hm.from_distribution(distribution)
    assert converted_space == space
    torch.testing.assert_close(space.marginals(converted_scores), space.marginals(scores))


@pytest.mark.parametrize("space", [hm.Categorical(3), hm.Categorical(3, 4), hm.Binary(3)], ids=str)
def test_there_and_back(space):
    distribution = hm.to_distribution(LOGITS, space)
    assert distribution.event_shape == space.event_shape
    assert distribution.batch_shape == space.batch_shape(LOGITS)
    back, scores = hm.from_distribution(distribution)
    assert back == space
    torch.testing.assert_close(space.marginals(scores), space.marginals(LOGITS))


def test_gradient_reaches_the_distribution_s_parameters():
    probs = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64, requires_grad=True)
    space, scores = hm.from_distribution(td.OneHotCategorical(probs=probs))
    worth = torch.tensor([1.0, 5.0, 2.0], dtype=torch.float64)
    hm.expectation(lambda z: z @ worth, scores, space, hm.Exact()).value.backward()
    expected = worth - (probs.detach() * worth).sum()  # torch normalises probs: only directions that keep their sum
    torch.testing.assert_close(probs.grad, expected)


@pytest.mark.parametrize("distribution", [
    td.Normal(0.0, 1.0),
    td.Independent(td.Bernoulli(logits=LOGITS), 2),
    td.RelaxedOneHotCategorical(torch.tensor(1.0), logits=LOGITS),
], ids=str)  # fmt: skip
def test_others_are_refused(distribution):
    with pytest.raises(hm.ArgumentError, match="OneHotCategorical"):
        hm.from_distribution(distribution)


def test_spaces_without_a_counterpart_are_refused():
    class Other(hm.AbstractFactorised):
        score_shape = (3,)
        size = variables = 3
        argmax = noise = uncertainty = leftover = None

    with pytest.raises(hm.ArgumentError, match="counterpart"):
        hm.to_distribution(LOGITS, Other())

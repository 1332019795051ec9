"""SelectKFeatures: k features, random state, arrays of any kind, and the gradient for the scores."""

import sys

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.sklearn import SelectKFeatures, _cross_entropy, _MaskedLoss


def draw_features(samples, features, seed=0):
    return np.random.default_rng(seed).normal(size=(samples, features))


# --------------------------------------------------------------------------------------------- what is selected
@pytest.mark.parametrize("k", [1, 3, 6])
def test_exactly_k_features_of_the_largest_scores(k):
    X = draw_features(100, 6)
    selector = SelectKFeatures(k, steps=30, random_state=0).fit(X, X[:, 0] > 0)
    mask = selector.get_support()
    assert mask.sum() == k == selector.transform(X).shape[1]
    assert np.array_equal(selector.transform(X), X[:, mask])
    assert k == 6 or selector.scores_[mask].min() > selector.scores_[~mask].max()
    assert len(selector.loss_curve_) == (0 if k == 6 else 30)


def test_the_number_of_features_decreases_from_all_to_k():
    selector = SelectKFeatures(5, steps=100, annealing_share=0.5)
    counts = [selector._count_features(step, 80) for step in range(100)]
    assert counts[0] == 80
    assert counts[25] == 20  # half way, geometrically
    assert counts[50:] == [5] * 50
    assert counts == sorted(counts, reverse=True)
    selector.set_params(annealing_share=0)
    assert {selector._count_features(step, 80) for step in range(100)} == {5}


# --------------------------------------------------------------------------------------------- with scikit-learn
def test_the_same_seed_gives_the_same_selection_and_global_state_is_unchanged():
    X = draw_features(100, 10)
    y = X[:, 0] > 0
    torch.manual_seed(1)
    before = torch.get_rng_state(), torch.get_num_threads()
    first = SelectKFeatures(3, steps=20, random_state=5).fit(X, y)
    torch.set_num_threads(2)
    try:
        with torch.no_grad():
            torch.rand(3)
            torch.manual_seed(1)
            second = SelectKFeatures(3, steps=20, random_state=5).fit(X, y)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before[1])
    assert np.array_equal(first.scores_, second.scores_)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert not np.array_equal(first.scores_, SelectKFeatures(3, steps=20, random_state=6).fit(X, y).scores_)


def test_a_default_dtype_of_float64():
    torch.set_default_dtype(torch.float64)
    try:
        selector = SelectKFeatures(2, steps=10, random_state=0).fit(draw_features(100, 5))
    finally:
        torch.set_default_dtype(torch.float32)
    assert selector.scores_.dtype == np.float32
    assert selector.support_.sum() == 2


def test_read_only_and_reversed_arrays():
    X, y = draw_features(50, 4).astype(np.float32), np.arange(50) % 2
    X.setflags(write=False)
    y.setflags(write=False)
    for x in (X, X[:, ::-1]):
        SelectKFeatures(2, steps=3, random_state=0, standardize=False).fit(x, y[::-1])


def test_import_without_scikit_learn(monkeypatch):
    monkeypatch.delitem(sys.modules, "hardmax.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(hm.MissingExtraError, match=r"pip install 'hardmax\[sklearn\]'"):
        import hardmax.sklearn  # noqa: F401


# --------------------------------------------------------------------------------------------- the gradient
def estimate_gradients(pair, repetitions=10_000):
    """Return independent estimates of the gradient for the scores, and its exact value by enumeration.

    Args:
        pair: changes the z of the four examples before the loss receives them; the identity, or a planted error.
        repetitions: number of estimates.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    target = torch.tensor([0, 1, 2, 1])
    network = torch.nn.Linear(5, 3, dtype=torch.float64)
    torch.nn.init.normal_(network.weight, generator=generator)
    space, scores = hm.Subset(5, 2), torch.randn(5, generator=generator, dtype=torch.float64).requires_grad_()
    members = space.enumerate(dtype=torch.float64)
    losses = torch.stack([_MaskedLoss(network, _cross_entropy, x, target)(z.expand(4, 5)).mean() for z in members])
    exact = torch.autograd.grad((members @ scores).softmax(0) @ losses.detach(), scores)[0]
    f = _MaskedLoss(network, _cross_entropy, x.repeat_interleave(repetitions, 0), target.repeat_interleave(repetitions))
    copies = scores.detach().expand(repetitions, 5).clone().requires_grad_()
    value = hm.expectation(
        lambda z: f(pair(z).flatten(0, 1)).view(4, repetitions),
        copies,
        space,
        hm.GibbsCovariance(),
        samples=4,
        generator=generator,
    ).value
    return torch.autograd.grad(value.sum(), copies)[0], exact


def find_deviation(estimates, exact):
    """Return the largest difference from the exact value, in standard errors."""
    return ((estimates.mean(0) - exact).abs() / (estimates.std(0) / len(estimates) ** 0.5)).max().item()


def test_the_gradient_for_the_scores_is_unbiased():
    """Example i is evaluated with z number i alone: for a fixed batch, the mean over z is that of all pairs."""
    assert find_deviation(*estimate_gradients(lambda z: z)) < 5.5


def test_a_planted_error_of_the_gradient_is_detected():
    assert find_deviation(*estimate_gradients(lambda z: z.flip(0))) > 8

"""TopKRouter's gradients, where they are exact or unbiased, against enumeration of all sets of experts.

An estimator's gradient depends on f at z, which depends on the logits twice: through the chosen set, and through the
weights of the chosen. Enumeration differentiates both.
"""

import pytest
import torch

import hardmax as hm
from hardmax.nn import TopKRouter
from hardmax.random import make_generator

EXPERTS, DRAWS, FALSE_ALARM = 5, 20_000, 1e-6


def random(*shape, seed=0):
    return torch.randn(*shape, generator=make_generator(seed, "router"), dtype=torch.float64)


LOGITS, SLOPE, CURVATURE = random(EXPERTS), 3 * random(EXPERTS, seed=1), 3 * random(EXPERTS, EXPERTS, seed=2)


def linear(z):
    return z @ SLOPE


def quadratic(z):
    return z @ SLOPE + ((z @ CURVATURE) * z).sum(-1)


def weigh(sets, logits, normalise):
    weights = sets * logits.softmax(-1)
    return weights / weights.sum(-1, keepdim=True) if normalise else weights


def enumerate_gradient(f, k, normalise):
    """Return the gradient of E[f(z)], z the weights of a random set of k experts."""
    logits = LOGITS.clone().requires_grad_()
    space = hm.Subset(EXPERTS, k)
    sets = space.enumerate(dtype=torch.float64)
    value = space.log_probs(logits).exp() @ f(weigh(sets, logits, normalise))
    return torch.autograd.grad(value, logits)[0]


def measure_z(f, loss_of, k, normalise, estimator, samples=1, draws=DRAWS):
    """Return the largest |z| of the mean gradient, and the relative error that would be detected."""
    router = TopKRouter(None, EXPERTS, k, estimator=estimator, normalise=normalise, generator=make_generator(7))
    logits = LOGITS.expand(draws, EXPERTS).clone().requires_grad_()
    out = router(logits.expand(samples, draws, EXPERTS))
    loss_of(out, f(out.z)).sum().backward()
    error = (logits.grad.std(0) / draws**0.5).clamp_min(1e-12)  # zero where nothing is random
    exact = enumerate_gradient(f, k, normalise)
    z = (logits.grad.mean(0) - exact).abs() / error
    return float(z.max()), threshold() * float(error.norm() / exact.norm())


def threshold():
    return -float(torch.special.ndtri(torch.tensor(FALSE_ALARM / (2 * EXPERTS), dtype=torch.float64)))


def plain(out, values):
    return values


def score_function(out, values):
    return values + values.detach() * out.log_prob


def leave_one_out(out, values):
    advantage = 2 * (values - values.mean(0))  # for two samples, f minus f of the other
    return (values + advantage.detach() * out.log_prob) / 2


def wrong_sign(out, values):
    return values - values.detach() * out.log_prob


def without_weights(out, values):
    return values.detach() * out.log_prob


def own_baseline(out, values):
    return (values + (values - values.mean(0)).detach() * out.log_prob) / 2  # the mean includes the sample itself


UNBIASED = {
    "score function": (quadratic, score_function, 2, False, "score-function", 1),
    "score function, normalised": (quadratic, score_function, 2, True, "score-function", 1),
    "score function, k = 1": (quadratic, score_function, 1, False, "score-function", 1),
    "leave-one-out": (quadratic, leave_one_out, 3, False, "score-function", 2),
    "straight-through, linear f": (linear, plain, 2, False, hm.StraightThrough(), 1),
    "straight-through, linear f, k = 1": (linear, plain, 1, True, hm.StraightThrough(), 1),
    "ReinMax, quadratic f": (quadratic, plain, 1, True, hm.ReinMax(), 1),
    "ReinMax, quadratic f, weights": (quadratic, plain, 1, False, hm.ReinMax(), 1),
}
BIASED = {
    "wrong sign": (quadratic, wrong_sign, 2, False, "score-function", 1),
    "no gradient through the weights": (quadratic, without_weights, 2, False, "score-function", 1),
    "no gradient of the choice": (quadratic, plain, 2, False, "score-function", 1),
    "a baseline of half the size": (quadratic, own_baseline, 2, False, "score-function", 2),
    "straight-through, quadratic f": (quadratic, plain, 2, False, hm.StraightThrough(), 1),
    "another temperature": (linear, plain, 2, False, hm.StraightThrough(tau=1.3), 1),
    "ReinMax, k = 2": (linear, plain, 2, False, hm.ReinMax(), 1),
}


@pytest.mark.parametrize("case", UNBIASED.values(), ids=UNBIASED.keys())
def test_unbiased(case):
    largest, detectable = measure_z(*case)
    assert largest < threshold()
    assert detectable < 0.2


@pytest.mark.parametrize("case", BIASED.values(), ids=BIASED.keys())
def test_bias_is_detected(case):
    assert measure_z(*case)[0] > threshold()


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("estimator", ["softmax", "dense"])
@pytest.mark.parametrize("k", [1, 2])
def test_top_k_without_randomness(estimator, k, normalise):
    """The derivative of z, written out: `dz_i / dlogit_j`, for the slope of f at z."""
    if estimator == "softmax" and k == 1 and normalise:
        pytest.skip("refused")
    logits = LOGITS.clone().requires_grad_()
    router = TopKRouter(None, EXPERTS, k, estimator=estimator, normalise=normalise)
    z = router(logits).z
    quadratic(z).backward()
    slope = SLOPE + (CURVATURE + CURVATURE.T) @ z.detach()
    p, h = LOGITS.softmax(0), (z > 0).double()
    jacobian = torch.diag(p) - p.outer(p)
    total = (h * p).sum()
    if estimator == "dense":  # of all probabilities, whose sum is constant
        expected = jacobian @ slope / (total if normalise else 1)
    elif normalise:  # a softmax over the chosen
        w = h * p / total
        expected = (torch.diag(w) - w.outer(w)) @ slope
    else:
        expected = jacobian @ (h * slope)
    assert torch.allclose(logits.grad, expected)


@pytest.mark.parametrize(
    "estimator", [hm.GumbelSoftmax(hard=True), hm.ImplicitMLE(2.0), hm.StraightThrough(), hm.Blackbox()], ids=str
)
def test_the_choice_is_that_of_the_estimator(estimator):
    """The same z and gradient as `hm.sample` on the scores, which include the bias."""
    bias = random(EXPERTS, seed=3)
    results = []
    for way in ("router", "sample"):
        logits = random(50, EXPERTS, seed=4).requires_grad_()
        generator = make_generator(8)
        if way == "router":
            router = TopKRouter(None, EXPERTS, 2, estimator=estimator, balance="bias", generator=generator).double()
            router.bias.copy_(bias)
            z = router(logits).z
        else:
            h = hm.sample(logits + bias, hm.Subset(EXPERTS, 2), estimator, samples=1, generator=generator)[0]
            z = h * logits.softmax(-1)
        quadratic(z).sum().backward()
        results.append((z.detach(), logits.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.allclose(results[0][1], results[1][1])


@pytest.mark.parametrize(
    "estimator",
    ["dense", "score-function", hm.StraightThrough(), hm.ReinMax(), hm.GumbelSoftmax(hard=True), hm.ImplicitMLE(8.0)],
    ids=str,
)
@pytest.mark.parametrize("k", [1, 2])
def test_learns_which_experts_are_right(estimator, k):
    """Each token has k experts of value zero; the others cost one. Only the choice can learn it."""
    x = random(64, 6)
    costs = (x @ random(6, 4, seed=5)).argsort(-1).argsort(-1).ge(k).double()
    torch.manual_seed(0)
    router = TopKRouter(6, 4, k, estimator=estimator, normalise=True, generator=make_generator(9)).double()
    optimizer = torch.optim.Adam(router.parameters(), 0.1)
    before = (router.eval()(x).z * costs).sum(-1).mean()
    router.train()
    for _ in range(60):
        out = router(x)
        loss = (out.z * costs).sum(-1)
        if out.log_prob is not None:
            loss = loss + (loss - loss.mean()).detach() * out.log_prob
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
    after = (router.eval()(x).z * costs).sum(-1).mean()
    assert before > 0.35
    assert after < 0.15

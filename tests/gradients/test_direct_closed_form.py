"""Direct has a closed-form mean on factorised spaces; its implementation and its order are compared with it.

Given the other variables, z_i(epsilon) is a Gumbel-max sample of softmax(scores_i + epsilon f(z_-i, .)), so
E[gradient_i] = E_{z_-i}[softmax(scores_i + epsilon f(z_-i, .)) - softmax(scores_i)] / epsilon.
"""

import pytest
import torch
from cases import Toy

import hardmax as hm

SPACES = [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3)]


def mean_gradient(space, f, scores, epsilon, two_sided):
    """Enumerate z and average the closed form of each variable over it."""
    members = space.enumerate(dtype=torch.float64)
    q = (members.flatten(1) @ scores.flatten()).softmax(0)
    values = f(members).detach()
    around = f(space.neighbours(members).flatten(0, 1)).detach().view(space.changes, -1) - values
    parts = space.parts(members, around)
    q_plus = space.marginals(scores + epsilon * parts)
    q_minus = space.marginals(scores - epsilon * parts) if two_sided else space.marginals(scores).expand_as(q_plus)
    slope = (q_plus - q_minus) / (2 * epsilon if two_sided else epsilon)
    return torch.einsum("m,m...->...", q, slope)


def exact_gradient(space, f, scores):
    scores = scores.clone().requires_grad_()
    hm.expectation(f, scores, space, hm.Exact()).value.backward()
    return scores.grad


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize(("two_sided", "order"), [(False, 1), (True, 2)])
def test_order_of_the_bias(space, two_sided, order):
    scores = torch.randn(space.score_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f = Toy(space)
    exact = exact_gradient(space, f, scores)
    bias = [(mean_gradient(space, f, scores, e, two_sided) - exact).norm() for e in (1e-2, 1e-3)]
    assert torch.log10(bias[0] / bias[1]).item() == pytest.approx(order, abs=0.05)


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_mean_is_the_closed_form(space, two_sided, epsilon):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
    f = Toy(space)
    draws = 200_000
    batch = scores.expand(draws, *scores.shape).clone().requires_grad_()
    hm.expectation(f, batch, space, hm.Direct(epsilon, two_sided), generator=generator).value.sum().backward()
    error = batch.grad.std(0) / draws**0.5
    z = (batch.grad.mean(0) - mean_gradient(space, f, scores, epsilon, two_sided)) / error
    assert z.abs().max() < 5.5

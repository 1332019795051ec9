"""Likelihoods against torch.distributions: f itself, and each optional method."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, Normal

import hardmax as hm

PIXELS = (1, 3, 4)
BATCHES = [(), (4,), (2, 3)]


class Reshape(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.shape = shape

    def forward(self, z):
        return z.reshape(len(z), *self.shape)


def linear():
    return nn.Linear(5, 12), (5,)


def network():
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 12)), (5,)


def convolution():
    """Two variables of five values as an image of five channels, upsampled: pixels come as an image."""
    return nn.Sequential(Reshape(5, 2, 1), nn.ConvTranspose2d(5, 1, (2, 4))), (2, 5)


DECODERS = [linear, network, convolution]
NOISE = torch.linspace(-1, 1, 12, dtype=torch.float64)
KINDS = {
    "bernoulli": (hm.BernoulliLikelihood, lambda mean: Bernoulli(logits=mean, validate_args=False)),
    "gaussian": (hm.GaussianLikelihood, lambda mean: Normal(mean, 1.0)),
    "gaussian -2": (partial(hm.GaussianLikelihood, log_variance=-2.0), lambda mean: Normal(mean, torch.e**-1)),
    "gaussian per pixel": (
        partial(hm.GaussianLikelihood, log_variance=NOISE),
        lambda mean: Normal(mean, (NOISE.view(PIXELS) / 2).exp()),
    ),
}


def problem(make, kind, batch):
    torch.manual_seed(0)
    decoder, event = make()
    decoder = decoder.double()
    x = torch.rand(*batch, *PIXELS, dtype=torch.float64)
    likelihood = KINDS[kind][0](decoder, x, batch_dims=len(batch))

    def expected(z, x):
        """Return log p(x | z) of matching rows `[R, *event]` and `[R, *pixels]`, by torch.distributions."""
        return KINDS[kind][1](decoder(z).view(-1, *PIXELS)).log_prob(x).sum((-3, -2, -1))

    return likelihood, expected, x, event


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", DECODERS)
class TestAgainstTorch:
    def test_call(self, make, kind, batch):
        likelihood, expected, x, event = problem(make, kind, batch)
        z = torch.rand(6, *batch, *event, dtype=torch.float64)
        rows = expected(z.reshape(-1, *event), x.expand(6, *x.shape).reshape(-1, *PIXELS))
        values = likelihood(z)
        assert values.shape == (6, *batch)
        torch.testing.assert_close(values, rows.view(6, *batch), rtol=1e-12, atol=1e-12)

    def test_rows(self, make, kind, batch):
        likelihood, expected, x, event = problem(make, kind, batch)
        examples = x.reshape(-1, *PIXELS)
        index = torch.randint(len(examples), (9,))
        z = torch.rand(9, *event, dtype=torch.float64)
        torch.testing.assert_close(likelihood.rows(z, index), expected(z, examples[index]), rtol=1e-12, atol=1e-12)
        assert likelihood.rows(z[:0], index[:0]).shape == (0,)

    def test_pairs(self, make, kind, batch):
        likelihood, expected, x, event = problem(make, kind, batch)
        z = torch.rand(6, *event, dtype=torch.float64)
        columns = torch.stack(
            [expected(row.expand(x[..., 0, 0, 0].numel(), *event), x.reshape(-1, *PIXELS)) for row in z]
        )
        values = likelihood.pairs(z)
        assert values.shape == (*batch, 6)
        torch.testing.assert_close(values, columns.mT.view(*batch, 6), rtol=1e-12, atol=1e-12)

    def test_gradients(self, make, kind, batch):
        """Every method gives the decoder and z the same gradient as torch.distributions."""
        likelihood, expected, x, event = problem(make, kind, batch)
        examples, parameters = x.reshape(-1, *PIXELS), list(likelihood.decoder.parameters())
        z = torch.rand(len(examples), *event, dtype=torch.float64, requires_grad=True)
        index = torch.arange(len(examples))
        expected_gradients = torch.autograd.grad(expected(z, examples).sum(), [z, *parameters])
        values = [
            likelihood(z.view(1, *batch, *event)).sum(),
            likelihood.rows(z, index).sum(),
            likelihood.pairs(z).view(-1, len(z)).diagonal().sum(),
        ]
        for value in values:
            torch.testing.assert_close(
                torch.autograd.grad(value, [z, *parameters]), expected_gradients, rtol=1e-10, atol=1e-10
            )


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [linear, network])
def test_table(make, kind, batch):
    likelihood, _, _, event = problem(make, kind, batch)
    every = torch.eye(5, dtype=torch.float64)
    spread = every.view(5, *(1 for _ in batch), *event).expand(5, *batch, *event)
    torch.testing.assert_close(likelihood.table(), likelihood(spread).movedim(0, -1), rtol=1e-12, atol=1e-12)


def test_table_of_a_decoder_without_a_linear_layer():
    likelihood, *_ = problem(convolution, "bernoulli", (4,))
    with pytest.raises(hm.ArgumentError, match=r"Sequential.*no linear layer.*pairs"):
        likelihood.table()


@pytest.mark.parametrize("shape", [(), (12,)], ids=str)
def test_a_learned_variance(shape):
    torch.manual_seed(0)
    decoder, x = nn.Linear(5, 12).double(), torch.rand(4, 12, dtype=torch.float64)
    log_variance = torch.full(shape, -0.5, dtype=torch.float64, requires_grad=True)
    likelihood = hm.GaussianLikelihood(decoder, x, log_variance)
    z = torch.rand(6, 4, 5, dtype=torch.float64)
    expected = Normal(decoder(z), (log_variance / 2).exp()).log_prob(x).sum()
    torch.testing.assert_close(
        torch.autograd.grad(likelihood(z).sum(), log_variance), torch.autograd.grad(expected, log_variance)
    )
    pairs = Normal(decoder(z[:, 0])[:, None], (log_variance / 2).exp()).log_prob(x).sum()
    torch.testing.assert_close(
        torch.autograd.grad(likelihood.pairs(z[:, 0]).sum(), log_variance), torch.autograd.grad(pairs, log_variance)
    )


@pytest.mark.parametrize("size", [100.0, 1e4])
def test_saturated_logits_are_finite_and_right(size):
    decoder = nn.Linear(2, 6)
    with torch.no_grad():
        decoder.weight.copy_(
            size * torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0, 0.0], [-1.0, 1.0, 1.0, 1.0, -1.0, 0.0]]).T
        )
        decoder.bias.zero_()
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]])
    likelihood = hm.BernoulliLikelihood(decoder, x)
    expected = torch.tensor([[-size, -3 * size]]) - torch.log(torch.tensor(2.0))
    torch.testing.assert_close(likelihood.table().detach(), expected)
    torch.testing.assert_close(likelihood(torch.eye(2)[:, None]).mT.detach(), expected)
    likelihood.table().sum().backward()
    assert decoder.weight.grad.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("make", "space"),
    [(network, hm.Categorical(5)), (network, hm.Binary(5)), (convolution, hm.Categorical(5, 2))],
    ids=["categorical", "binary", "convolution"],
)
def test_shortcuts_change_nothing_but_the_cost(make, kind, space):
    """The same noise gives the same value and gradients with f only and with all its methods."""
    likelihood, _, _, _ = problem(make, kind, (2, 3))
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, *space.score_shape, generator=generator, dtype=torch.float64, requires_grad=True)
    noise = space.noise((2, 2, 3), generator=generator, dtype=torch.float64)
    leaves = [scores, *likelihood.decoder.parameters()]
    for estimator in (hm.Exact(), hm.Direct(0.3), hm.LocalExpectation(), hm.Reinforce("leave-one-out")):
        first = hm.expectation(lambda z: likelihood(z), scores, space, estimator, noise=noise)
        second = hm.expectation(likelihood, scores, space, estimator, noise=noise)
        torch.testing.assert_close(second.value, first.value, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            torch.autograd.grad(second.value.sum(), leaves),
            torch.autograd.grad(first.value.sum(), leaves),
            rtol=1e-10,
            atol=1e-10,
        )


def test_pairs_decode_a_shared_z_once():
    rows = []

    class Counting(nn.Linear):
        def forward(self, z):
            rows.append(len(z))
            return super().forward(z)

    likelihood = hm.BernoulliLikelihood(Counting(5, 12), torch.rand(100, 12))
    hm.expectation(likelihood, torch.zeros(100, 5), hm.Categorical(5))
    assert rows == [5]
    rows.clear()
    hm.expectation(lambda z: likelihood(z), torch.zeros(100, 5), hm.Categorical(5))
    assert rows == [500]

"""A prior over tokens against enumeration: it is a distribution, and samples follow it."""

import itertools
import math

import pytest
import torch

import hardmax as hm
from hardmax.applications.tokens import TokenPrior, TokenVAE

CODES, PLACES = 3, 4
EVERY = torch.tensor(list(itertools.product(range(CODES), repeat=PLACES))).view(-1, 2, 2)


@pytest.fixture
def small():
    torch.manual_seed(0)
    tokenizer = TokenVAE.build((1, 4, 4), CODES, dimensions=4, longest=2, width=4)
    prior = TokenPrior.build(tokenizer, width=8, layers=1, heads=2)
    with torch.no_grad():
        for parameter in prior.network.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))  # far from uniform
    return prior


def test_it_is_a_distribution_and_is_drawn_from(small):
    p = small.log_prob(EVERY).double().exp().detach()
    assert p.sum().item() == pytest.approx(1, abs=1e-5)
    assert p.max() > 3 * p.min()
    count = 20_000
    _, tokens = small.sample(count, generator=torch.Generator().manual_seed(0))
    place = CODES ** torch.arange(PLACES - 1, -1, -1)
    share = (tokens.flatten(1) * place).sum(1).bincount(minlength=len(p)).double() / count
    z = (share - p) / (p * (1 - p) / count).sqrt()
    assert z.abs().max() < 5
    shifted = (share - p.roll(1)) / (p * (1 - p) / count).sqrt()
    assert shifted.abs().max() > 5  # the test detects a wrong distribution


def test_the_bound_is_below_the_likelihood(small):
    x = torch.rand(6, 1, 4, 4)
    z = torch.nn.functional.one_hot(EVERY.flatten(1), CODES).float()
    values = torch.stack([small.tokenizer.likelihood(x)(value.expand(1, 6, -1, -1))[0] for value in z], 1)
    log_p = (values + small.log_prob(EVERY)).logsumexp(1)
    bounds = small.bounds(x)
    assert (bounds.elbo <= log_p + 1e-4).all()
    torch.testing.assert_close(bounds.kl, -small.log_prob(small.tokenizer.tokenize(x)))
    assert not torch.allclose(bounds.kl, torch.full((6,), PLACES * math.log(CODES)))


def test_the_tokenizer_learns_nothing(small):
    (-small.log_prob(EVERY).mean()).backward()
    assert all(parameter.grad is None for parameter in small.tokenizer.parameters())
    assert all(parameter.grad is not None for parameter in small.network.parameters())


def test_saved_with_its_tokenizer(small, tmp_path):
    small.save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path)
    assert loaded.tokenizer.fingerprint == small.tokenizer.fingerprint
    torch.testing.assert_close(loaded.log_prob(EVERY), small.log_prob(EVERY))

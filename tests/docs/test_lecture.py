"""The functions of the worked examples agree with the theory; and formulas of the lectures without another test."""

import math
import runpy
from itertools import product
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from torch.distributions import Gumbel, RelaxedOneHotCategorical, TransformedDistribution, Uniform
from torch.distributions.transforms import CumulativeDistributionTransform
from torch.nn.functional import normalize, triplet_margin_with_distance_loss

import hardmax as hm
from hardmax.applications.hashing import triplet_loss
from hardmax.data import binarize, load_images
from hardmax.testing import assert_unbiased

EXAMPLES = Path(__file__).parents[2] / "examples"


def program(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# -------------------------------------------------------------------------------------------------------- the programs
@pytest.mark.parametrize("k", range(4))
def test_every_line_of_the_proof(k):
    gumbel_max = program("gumbel_max")
    scores, t = gumbel_max["SCORES"], gumbel_max["T"]
    lines = gumbel_max["proof_lines"](scores, k)
    for line in lines:
        torch.testing.assert_close(line, lines[0], rtol=0, atol=1e-14)
        assert torch.trapezoid(line, t).item() == pytest.approx(scores.softmax(0)[k].item(), abs=1e-9)
    wrong = gumbel_max["proof_lines"](scores + 0.01 * torch.eye(4)[k], k)
    assert (wrong[0] - lines[0]).abs().max() > 1e-4


@pytest.mark.parametrize("tau", [0.4, 1.0, 2.5])
def test_concrete_density(tau):
    concrete = program("concrete_density")
    scores = concrete["SCORES"]
    x = random(50, 3).softmax(-1)
    law = RelaxedOneHotCategorical(torch.tensor(tau), logits=scores, validate_args=False)
    torch.testing.assert_close(concrete["log_density"](x, scores, tau), law.log_prob(x))
    points, area = concrete["make_simplex_grid"]()
    mass = concrete["log_density"](points, scores, tau).exp() * area
    assert mass.sum().item() == pytest.approx(1, abs=1e-6)
    z = hm.sample(scores, hm.Categorical(3), hm.GumbelSoftmax(tau), samples=100_000).double()
    error = z[:, 0].std() / len(z) ** 0.5
    assert abs(z[:, 0].mean() - (mass * points[:, 0]).sum()) < 5.5 * error
    assert (concrete["printed_density"](points, scores) * area).sum() < 0.1


def test_softmax_sampling():
    softmax_sampling = program("softmax_sampling")
    scores = random(12)
    counts = 100_000 * softmax_sampling["count_frequencies"](scores.float()).double()
    assert chisquare(counts, 100_000 * scores.softmax(0)).pvalue > 1e-6
    assert chisquare(counts, 100_000 * (1.1 * scores).softmax(0)).pvalue < 1e-6


def test_a_classifier_learns():
    images = load_images("sample")
    x, labels = images.train[:500].flatten(1).float() / 255, images.labels["train"][:500]
    torch.manual_seed(0)
    scores = program("softmax_sampling")["train_classifier"](x, labels)(x)
    assert (scores.argmax(-1) == labels).double().mean() > 0.8
    assert scores.softmax(-1).gather(1, labels[:, None]).mean() > 0.5


def test_word_vectors_learn_the_pairs():
    softmax_sampling = program("softmax_sampling")
    words, counts = softmax_sampling["count_pairs"]()
    assert len(set(words)) == len(words) == len(counts)
    assert torch.equal(counts, counts.T)
    torch.manual_seed(0)
    u, v = softmax_sampling["train_word_vectors"](counts)
    share = counts / counts.sum()
    independent = -(share * share.sum(0).log()).sum()
    assert -(share * (v @ u.T).log_softmax(-1)).sum() < independent - 0.3


def test_the_two_terms_of_a_vae():
    """Without reconstruction q becomes the prior, without a regulariser it leaves it."""
    latents = program("vae_latents")
    images = binarize(load_images("sample").train[:500])
    kl = {}
    for name, weights in latents["LOSSES"].items():
        mean, log_variance = latents["train"](images, 4, *weights).encode(images)
        kl[name] = hm.gaussian_kl(mean, log_variance).mean().item()
    assert kl["no reconstruction"] < 0.1 < kl["both terms"] < 0.8 * kl["no regulariser"]


# -------------------------------------------------------------------------------- formulas without another test
def test_change_of_variable():
    """f_Y(y) |dy| = f_X(x) |dx|: a uniform through the inverse distribution function has the Gumbel density."""
    law = Gumbel(torch.zeros((), dtype=torch.float64), 1.0)
    transformed = TransformedDistribution(Uniform(law.loc, law.loc + 1), [CumulativeDistributionTransform(law).inv])
    y = torch.linspace(-2, 5, 50, dtype=torch.float64)
    torch.testing.assert_close(transformed.log_prob(y), law.log_prob(y))


def test_policy_gradient():
    """Three steps, two actions, a policy for each step: the gradient of the mean return, by the score function."""
    space, scores = hm.Categorical(2, 3), random(3, 2)

    def reward(actions):
        """Return sum_t R(s_t, a_t): to walk right, s + 1, is worth s."""
        state, total = torch.zeros(actions.shape[:-2], dtype=torch.float64), 0.0
        for t in range(3):
            right = actions[..., t, 1]
            total, state = total + right * (state + 1), state + right
        return total

    paths = torch.stack([torch.eye(2, dtype=torch.float64)[list(path)] for path in product(range(2), repeat=3)])
    chances = torch.stack([math.prod(scores[t].softmax(0) @ path[t] for t in range(3)) for path in paths])
    torch.testing.assert_close(space.log_prob(scores, paths).exp(), chances)
    assert chances.sum().item() == pytest.approx(1)
    assert_unbiased(hm.Reinforce(), space, f=reward, scores=scores)


def test_a_mixture_of_vectors():
    """Sum_i alpha_i x_i: one vector of the codebook where alpha is hard, between them where it is soft."""
    codebook, scores = random(5, 3), random(4, 5)
    hard, soft = (
        hm.sample(
            scores, hm.Categorical(5), hm.GumbelSoftmax(0.5, hard=hard), generator=torch.Generator().manual_seed(0)
        )
        for hard in (True, False)
    )
    chosen = codebook[soft.argmax(-1)]
    torch.testing.assert_close(hard @ codebook, chosen)
    torch.testing.assert_close(soft @ codebook, torch.einsum("bi,id->bd", soft, codebook))
    assert (soft @ codebook - chosen).abs().max() > 0.01


def test_triplet_loss():
    """max(0, margin + q.d- - q.d+) on normalised vectors."""
    q, near, far = normalize(random(3, 20, 4), dim=-1)
    loss = triplet_loss(q, near, far, margin=0.5)
    torch.testing.assert_close(
        loss,
        triplet_margin_with_distance_loss(
            q, near, far, distance_function=lambda a, b: -(a * b).sum(-1), margin=0.5, reduction="none"
        ),
    )
    torch.testing.assert_close(loss, (0.5 + (q * far).sum(-1) - (q * near).sum(-1)).clamp_min(0))
    assert 0 < (loss == 0).sum() < 20

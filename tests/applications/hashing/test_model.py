"""The hash encoder: the objective of its pairs, its codes, and its files."""

import pytest
import torch

import hardmax as hm
from hardmax.applications.hashing import HashEncoder, info_nce
from hardmax.errors import ArgumentError


def images(count=12, seed=0):
    return torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


def build(bits=8, **options):
    torch.manual_seed(0)
    return HashEncoder.build(bits, (1, 6, 6), hidden=20, **options)


def test_value_is_the_loss_of_vectors():
    model, first, second = build(), images(), images(seed=1)
    noise = model.space.noise((1, 24), torch.Generator().manual_seed(2))
    out = model(first, second, noise=noise)
    codes = 2 * model.space.argmax(model.scores(torch.cat([first, second])) + noise[0]) - 1
    losses = []
    for i in range(24):
        partner = (i + 12) % 24
        others = [j for j in range(24) if j not in (i, partner)]
        losses.append(info_nce(codes[i, None], codes[partner, None], codes[others], temperature=0.2))
    torch.testing.assert_close(out.value, -torch.cat(losses).mean().expand(24))
    assert out.z.shape == (1, 24, 8)


def test_scores_are_standardised():
    model = build(gain=4.0)
    scores = model.scores(images(50))
    torch.testing.assert_close(scores.mean(0), torch.zeros(8), atol=1e-4, rtol=0)
    torch.testing.assert_close(scores.std(0, correction=0), torch.full((8,), 4.0), atol=0.4, rtol=0)


def test_training_brings_pairs_together():
    model, first = build(), images(40)
    second = first + 0.05 * torch.randn(first.shape, generator=torch.Generator().manual_seed(1))
    optimizer, generator = torch.optim.Adam(model.parameters(), lr=3e-3), torch.Generator().manual_seed(2)
    before = None
    for _ in range(60):
        out = model(first, second, generator=generator)
        before = out.value[0].item() if before is None else before
        optimizer.zero_grad()
        (-out.value.sum()).backward()
        optimizer.step()
    assert out.value[0].item() > before + 0.5
    model.eval()
    differing = (model.codes(first) != model.codes(second)).float().mean()
    others = (model.codes(first) != model.codes(second.roll(1, 0))).float().mean()
    assert differing < others / 2


@pytest.mark.parametrize(
    "estimator", [hm.ReinMax(), hm.GumbelSoftmax(0.5), hm.DisArm(), hm.LocalExpectation(), hm.Direct()]
)
def test_every_kind_of_estimator_gives_the_encoder_a_gradient(estimator):
    model = build()
    out = model(images(4), images(4, seed=1), estimator=estimator)
    (-out.value.sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert any(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_images_without_negatives():
    model, first = build(), images(4)
    noise = model.space.noise((1, 8), torch.Generator().manual_seed(0))
    no_negatives = torch.zeros(4, 4, dtype=torch.bool)
    assert model(first, first, negative=no_negatives, noise=noise).value.abs().max() < 1e-5
    assert model(first, first, noise=noise).value.max() < -0.1


def test_estimators_that_compare_examples_are_refused():
    with pytest.raises(ArgumentError, match="compares examples of a batch"):
        build()(images(), images(), estimator=hm.Reinforce("mean"))


def test_saved_and_loaded(tmp_path):
    model = build(bits=5, gain=2.0)
    model(images(), images())  # moves the running means
    model.eval().save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path).eval()
    assert isinstance(loaded, HashEncoder)
    assert loaded.shape == (1, 6, 6)
    torch.testing.assert_close(loaded.scores(images(seed=3)), model.scores(images(seed=3)))

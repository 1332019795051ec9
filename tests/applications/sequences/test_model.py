"""The sequence GAN: its probabilities, its draws, the logits of prefixes, and its files."""

from itertools import product

import pytest
import torch

import hardmax as hm
from hardmax.applications.sequences import SequenceGAN, sequence_expectation
from hardmax.applications.sequences.objective import draw_sequences, evaluate_prefixes

K, T = 3, 4


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = SequenceGAN.build(["", "a", "b"], T, hidden=8, discriminator_hidden=8)
    for parameter in model.parameters():
        parameter.data.mul_(4)  # far from uniform
    return model.double()


def all_sequences():
    tokens = torch.tensor(list(product(range(K), repeat=T)))
    return (tokens[..., None] == torch.arange(K)).double()


def test_probabilities_add_up_to_one(model):
    assert model.generator.log_prob(all_sequences()).exp().sum().item() == pytest.approx(1, abs=1e-12)


def test_draws_have_these_probabilities(model):
    count = 100_000
    q = model.generator.log_prob(all_sequences()).exp().detach()
    z = model.generator.draw(count, generator=torch.Generator().manual_seed(0))
    codes = (z.argmax(-1) * K ** torch.arange(T - 1, -1, -1)).sum(-1)
    shares = torch.bincount(codes, minlength=K**T) / count
    errors = (q * (1 - q) / count).sqrt()
    assert ((shares - q).abs() / errors.clamp_min(1 / count)).max() < 5.5
    assert ((shares - q.flip(0)).abs() / errors.clamp_min(1 / count)).max() > 5.5
    assert z.sum(-1).eq(1).all()


def test_all_ways_to_draw_are_the_same(model):
    noise = model.generator.noise((1, 50), torch.Generator().manual_seed(0))
    z = model.generator.draw_from_noise(noise[0])
    for estimator in (hm.Exact(), hm.StraightThrough(), hm.ReinMax(), hm.GumbelSoftmax(hard=True)):
        torch.testing.assert_close(draw_sequences(model.generator, estimator, noise).detach(), z)
    for estimator in (hm.Exact(), hm.Direct(), hm.Reinforce("mean"), hm.LocalExpectation()):
        for credit in ("prefix", "rollout"):
            out = sequence_expectation(model.generator, model.discriminator, estimator, noise, credit=credit)
            assert torch.equal(out.z, z)
            torch.testing.assert_close(out.rewards, model.discriminator(z).detach())
            torch.testing.assert_close(out.value, out.rewards.sum(1))
    soft = draw_sequences(model.generator, hm.GumbelSoftmax(1.0), noise)
    torch.testing.assert_close(soft.sum(-1), torch.ones(50, T, dtype=torch.float64))
    assert soft.max(-1).values.min() < 0.9


def test_every_prefix_is_judged_and_nothing_after_it(model):
    z = model.generator.draw(20, generator=torch.Generator().manual_seed(0))
    logits = model.discriminator(z)
    torch.testing.assert_close(evaluate_prefixes(model.discriminator, z), logits)
    other = z.clone()
    other[:, 2] = z[:, 2].roll(1, -1)
    changed = model.discriminator(other)
    assert torch.equal(changed[:, :2], logits[:, :2])
    assert (changed[:, 2:] != logits[:, 2:]).all()


def test_the_number_of_evaluations(model):
    noise = model.generator.noise((1, 10))
    for estimator, evaluations in ((hm.Reinforce("none"), 1), (hm.Exact(), K), (hm.StraightThrough(), 1)):
        out = sequence_expectation(model.generator, model.discriminator, estimator, noise)
        assert out.evaluations == evaluations


def test_the_former_name_of_draw_from_noise_warns(model):
    noise = model.generator.noise((5,), torch.Generator().manual_seed(0))
    with pytest.deprecated_call(match="use SequenceGenerator.draw_from_noise"):
        assert torch.equal(model.generator.at(noise), model.generator.draw_from_noise(noise))


def test_texts(model):
    tokens = torch.tensor([[1, 2, 0, 0], [0, 1, 0, 2], [0, 0, 0, 0]])
    assert model.to_texts((tokens[..., None] == torch.arange(K)).double()) == ["a b", "_ a _ b", ""]
    texts, tokens = model.sample(5, generator=torch.Generator().manual_seed(0))
    assert len(texts) == 5
    assert tokens.shape == (5, T)


def test_saved_and_loaded(model, tmp_path):
    model.float().save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path)
    assert isinstance(loaded, SequenceGAN)
    assert loaded.symbols == model.symbols
    z = all_sequences().float()
    assert torch.equal(loaded.generator.log_prob(z), model.generator.log_prob(z))
    assert torch.equal(loaded.discriminator(z), model.discriminator(z))


def test_invalid_symbols_and_lengths():
    with pytest.raises(hm.ArgumentError, match="two or more, all different"):
        SequenceGAN.build(["a", "a"], 4)
    with pytest.raises(hm.ArgumentError, match="two or more"):
        SequenceGAN.build(["a"], 4)
    with pytest.raises(hm.ArgumentError, match="length must be at least 1, got 0"):
        SequenceGAN.build(["a", "b"], 0)


def test_invalid_noise(model):
    generator, discriminator = model.generator, model.discriminator
    with pytest.raises(hm.ArgumentError, match="draw more sequences"):
        sequence_expectation(generator, discriminator, hm.StraightThrough(), generator.noise((2, 5)))
    with pytest.raises(hm.ShapeError, match=r"K = 3 tokens, got \[1, 5, 4, 2\]"):
        sequence_expectation(generator, discriminator, hm.Exact(), torch.zeros(1, 5, T, 2, dtype=torch.float64))

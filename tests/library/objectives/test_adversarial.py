"""The losses of adversarial training: the same from logits as from probabilities, and their stationary points."""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

import hardmax as hm

LOGITS = torch.linspace(-6, 6, 25, dtype=torch.float64)


def test_the_discriminator_loss_is_cross_entropy():
    real, generated = hm.discriminator_loss(LOGITS, LOGITS)
    for loss, label in ((real, 1.0), (generated, 0.0)):
        labels = torch.full_like(LOGITS, label)
        torch.testing.assert_close(loss, binary_cross_entropy_with_logits(LOGITS, labels, reduction="none"))


def test_the_best_discriminator_is_the_log_ratio_and_the_printed_one_has_no_best():
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.1, 0.1, 0.8], dtype=torch.float64)
    logits = (p / q).log().requires_grad_()
    real, generated = hm.discriminator_loss(logits, logits)
    torch.testing.assert_close(
        torch.autograd.grad((p * real + q * generated).sum(), logits)[0], torch.zeros(3, dtype=torch.float64)
    )
    # With a minus between the terms the loss falls without bound.
    printed = [float((p * real - q * generated).sum()) for real, generated in map(lose_at, (1.0, 10.0, 100.0))]
    assert printed[0] > printed[1] + 5 > printed[2] + 50


def lose_at(scale):
    logits = torch.tensor([scale, scale, scale], dtype=torch.float64)
    return hm.discriminator_loss(logits, logits)


def test_generator_rewards():
    d = torch.sigmoid(LOGITS)
    torch.testing.assert_close(hm.generator_reward(LOGITS, "saturating"), -(1 - d).log())
    torch.testing.assert_close(hm.generator_reward(LOGITS, "non-saturating"), d.log())
    torch.testing.assert_close(hm.generator_reward(LOGITS), (d / (1 - d)).log())
    torch.testing.assert_close(hm.generator_reward(LOGITS, "non-saturating"), logsigmoid(LOGITS))


def test_only_the_saturating_one_has_no_slope_where_the_generator_loses():
    logits = torch.tensor(-12.0, dtype=torch.float64, requires_grad=True)
    slopes = {
        loss: float(torch.autograd.grad(hm.generator_reward(logits, loss), logits)[0])
        for loss in ("saturating", "non-saturating", "log-ratio")
    }
    assert slopes["saturating"] < 1e-4
    assert slopes["non-saturating"] > 0.99
    assert slopes["log-ratio"] == 1


def test_the_log_ratio_of_the_best_discriminator_is_a_divergence():
    p, q = (torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(i)).softmax(0) for i in (0, 1))
    gain = (q * hm.generator_reward((p / q).log())).sum()
    torch.testing.assert_close(gain, -(q * (q / p).log()).sum())

"""Without shape checks, as users run it: invalid input raises errors of hardmax."""

import pytest
import torch

import hardmax as hm
from hardmax.applications.sequences import SequenceDiscriminator, SequenceGenerator, sequence_expectation

pytestmark = pytest.mark.plain  # without shape checks


def test_an_unknown_loss():
    with pytest.raises(hm.ArgumentError, match=r"must be one of 'log-ratio'.*got 'hinge'"):
        hm.generator_reward(torch.zeros(3), "hinge")


def test_an_unknown_credit():
    generator, discriminator = SequenceGenerator(3, length=4), SequenceDiscriminator(3)
    with pytest.raises(hm.ArgumentError, match="credit must be 'prefix' or 'rollout', got 'none'"):
        sequence_expectation(generator, discriminator, hm.Exact(), generator.noise((1, 5)), credit="none")


@pytest.mark.parametrize("shape", [(5, 4, 3), (1, 5, 4, 2), (1, 0, 4, 3), (1, 5, 0, 3)])
@pytest.mark.parametrize("estimator", [hm.Exact(), hm.StraightThrough()], ids=str)
def test_noise_of_another_shape(shape, estimator):
    generator, discriminator = SequenceGenerator(3, length=4), SequenceDiscriminator(3)
    with pytest.raises(hm.ShapeError, match=r"noise must be \[S, N, T, K\] with K = 3 tokens"):
        sequence_expectation(generator, discriminator, estimator, torch.zeros(shape))

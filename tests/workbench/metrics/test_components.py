"""Principal components: the directions of largest variance, with more images than pixels or fewer."""

import pytest
import torch

from hardmax.metrics.images import Components


def images(count, seed=0):
    """Return images of 4x4 that vary in three directions, by 3, 2 and 1, with a little noise."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(9)))[0][:3]
    strengths = torch.randn(count, 3, generator=generator) * torch.tensor([3.0, 2.0, 1.0])
    noise = 0.01 * torch.randn(count, 16, generator=generator)
    return (strengths @ directions + noise + 0.5).view(count, 1, 4, 4), directions


@pytest.mark.parametrize("count", [14, 400])
def test_directions_in_their_own_deviations(count):
    x, _ = images(count)
    components = Components.fit(x, 3)
    features = (x.flatten(1) - components.mean) @ components.directions
    torch.testing.assert_close(features.T.cov(), torch.eye(3), atol=1e-3, rtol=0)


def test_distances():
    x, directions = images(5000)
    components = Components.fit(x, 3)
    moved = x + 3.0 * directions[0].view(1, 4, 4)  # one deviation of the first direction
    assert components.distance(x, moved).mean() == pytest.approx(1.0, rel=0.05)
    assert components.distance(x, x + 1.0 * directions[2].view(1, 4, 4)).mean() == pytest.approx(1.0, rel=0.05)
    between = components.distance(x[::2], x[1::2]).square().mean()
    assert between == pytest.approx(2 * 3, rel=0.05)


def test_few_images_have_few_directions():
    assert Components.fit(images(5)[0], 50).directions.shape == (16, 4)
    assert Components.fit(images(50)[0], 50).directions.shape == (16, 16)

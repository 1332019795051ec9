"""What is looked at: a perfect and a useless model get the numbers that they deserve."""

import pytest
import torch

from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.experiments.runner.model_figures import GeneratedImages, draw_settings, measure_attributes
from hardmax.metrics.images import Components
from hardmax.spaces import Binary, Categorical

SETTINGS = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
NAMES = ["top", "low"]


def draw(settings, *, entangled=False):
    """Images of 4x4 where each bit is a bright half, and a Gaussian a corner; entangled: the first bit is all."""
    corner = torch.linspace(0, 1, 40)[:, None, None, None, None].expand(40, 4, 1, 1, 1)
    x = torch.zeros(40, 4, 1, 4, 4)
    x[..., :1, :1] += corner
    bits = settings.float().clone()
    if entangled:
        bits[:, 1] = bits[:, 0]
    x[..., :2, 1:] += bits[:, 0].view(1, 4, 1, 1, 1)
    x[..., 2:, 1:] += bits[:, 1].view(1, 4, 1, 1, 1)
    return x


def judge(x):
    """A judge that sees everything."""
    return torch.stack([x[..., 0, 1, 2] > 0.5, x[..., 0, 3, 2] > 0.5], -1).long()


def measure(x, recognised=None):
    real = draw(SETTINGS).flatten(0, 1)
    test = (judge(real), judge(real))
    drawn = GeneratedImages(x, judge(x) if recognised is None else recognised, SETTINGS)
    return {line["of"]: line for line in measure_attributes(NAMES, drawn, test, Components.fit(real, 5), seed=0)}


def test_a_perfect_model():
    numbers = measure(draw(SETTINGS))
    assert list(numbers) == ["top", "low", "all at once", "two samples"]
    assert [numbers[name][key] for name in NAMES for key in ("real", "recognised", "others")] == [1, 1, 0, 1, 1, 0]
    assert numbers["all at once"] == {"of": "all at once", "real": 1.0, "recognised": 1.0}
    assert numbers["top"]["pixels"] == pytest.approx(6 / 16)
    assert numbers["two samples"]["others"] == pytest.approx(0.5, abs=0.2)
    assert numbers["two samples"]["pixels"] > 0.25


def test_attributes_that_hang_together():
    """To turn on the first turns on the second too; the second by itself does nothing."""
    numbers = measure(draw(SETTINGS, entangled=True))
    assert [numbers[name]["recognised"] for name in NAMES] == [1.0, 0.5]
    assert [numbers[name]["others"] for name in NAMES] == [1.0, 0.0]
    assert numbers["all at once"]["recognised"] == 0.5
    assert numbers["top"]["pixels"] == pytest.approx(12 / 16)
    assert numbers["low"]["pixels"] == numbers["low"]["features"] == 0.0


def test_settings_out_of_order_would_show():
    x = draw(SETTINGS)
    assert measure(x.flip(1))["top"]["recognised"] == 0.0
    assert measure(x, judge(x)[..., [1, 0]])["all at once"]["recognised"] == 0.5


def test_one_attribute_has_no_others():
    x = torch.rand(6, 2, 1, 4, 4)
    drawn = GeneratedImages(x, torch.zeros(6, 2, 1, dtype=torch.long), torch.tensor([[0], [1]]))
    test = torch.zeros(3, 1, dtype=torch.long), torch.tensor([[0], [1], [-1]])
    only, everything, _ = measure_attributes(["top"], drawn, test, Components.fit(x.flatten(0, 1), 3), seed=0)
    assert only["others"] is None
    assert (only["real"], only["recognised"], everything["real"]) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(("space", "join"), [(Categorical(3), "rows"), (Binary(2), "beside")])
def test_rows_share_their_gaussians(space, join):
    torch.manual_seed(0)
    model = MixedVAE.build(space, (1, 4, 4), join=join, continuous=3, hidden=8)
    settings = space.enumerate().float()
    drawn = draw_settings(model, settings, 5, seed=1)
    assert drawn.shape == (5, len(settings), 1, 4, 4)
    assert torch.equal(drawn, draw_settings(model, settings, 5, seed=1))
    assert torch.equal(drawn[:, 1:], draw_settings(model, settings[1:], 5, seed=1))
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[:, 0], drawn[:, 1])

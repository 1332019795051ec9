"""Completion: errors for invalid arguments; without shape checks, which would raise first."""

import pytest
import torch

from hardmax.applications.completion import CompletionModel, GaussianMixture, choose_component, max_operation_loss
from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.completion.masks import draw_masks
from hardmax.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.plain  # without shape checks

Q = torch.zeros(3, 2), torch.zeros(3, 2)
MIXTURE = GaussianMixture(torch.zeros(3, 4), torch.zeros(3, 4, 2), torch.zeros(3, 4, 2))
MODEL = CompletionModel.build((1, 8, 8), components=2, latent=2, hidden=8)
X, HIDDEN = torch.zeros(3, 1, 8, 8), draw_masks("half", 3, (8, 8))


def test_invalid_mixtures():
    with pytest.raises(ShapeError, match=r"a mixture needs scores \[\*B, k\]"):
        GaussianMixture(torch.zeros(3, 4), torch.zeros(3, 5, 2), torch.zeros(3, 5, 2))
    with pytest.raises(ArgumentError, match="rule must be one of 'responsibility', 'distance', 'fair', got 'nearest'"):
        choose_component(*Q, MIXTURE, "nearest")
    with pytest.raises(ArgumentError, match="form must be 'corrected' or 'published', got 'printed'"):
        max_operation_loss(*Q, MIXTURE, form="printed")


def test_invalid_models():
    with pytest.raises(ArgumentError, match="components need a latent, got 2 and 0"):
        CompletionModel.build((1, 8, 8), components=2, latent=0)
    with pytest.raises(ArgumentError, match="architecture must be 'mlp' or 'conv'"):
        CompletionModel.build((1, 8, 8), architecture="unet")
    with pytest.raises(ArgumentError, match="likelihood must be 'bernoulli' or 'gaussian'"):
        CompletionModel.build((1, 8, 8), likelihood="poisson")
    with pytest.raises(ShapeError, match=r"need \[3, 1, 8, 8\]: one mask for each"):
        MODEL(X, HIDDEN[:1])
    with pytest.raises(ArgumentError, match="choice must be"):
        MODEL(X, HIDDEN, choice="random")
    with pytest.raises(ArgumentError, match="needs an estimator of its gradient"):
        MODEL(X, HIDDEN, choice="encoder")
    with pytest.raises(ArgumentError, match="component must be from 0 to 1, got 2"):
        MODEL.complete(X, HIDDEN, component=2)


@pytest.mark.parametrize(("options", "message"), [
    ({"mask": "center"}, "no mask 'center'; did you mean centre?"),
    ({"mask": "???"}, "or name an image, white where pixels are hidden"),
    ({"components": -1}, "components must not be negative"),
    ({"latent": 0}, "leaves nothing to mix"),
    ({"loss": "published", "components": 0}, "loss published needs --components"),
    ({"loss": "corrected"}, "needs a max operation"),
])  # fmt: skip
def test_invalid_configurations(options, message):
    with pytest.raises(ArgumentError) as caught:
        CompletionConfig(**options)
    assert message in str(caught.value)

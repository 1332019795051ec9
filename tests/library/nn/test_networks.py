"""The names of weights must not change: saved models could no longer be loaded."""

import pytest
import torch

import hardmax as hm
import hardmax.nn
from hardmax.applications.completion.networks import UNetCompletionDecoder
from hardmax.nn import ConvDecoder, ConvEncoder, MLPDecoder, MLPEncoder, build_conv_decoder, build_conv_trunk


def weights(module):
    return {name.removesuffix(".weight"): list(t.shape) for name, t in module.state_dict().items() if t.dim() > 1}


def test_names_and_shapes():
    space = hm.Binary(5)
    assert weights(MLPEncoder((1, 4, 4), space, [7, 7])) == {
        "layers.0": [7, 16],
        "layers.2": [7, 7],
        "layers.4": [5, 7],
    }
    assert weights(MLPDecoder((1, 4, 4), space, 7)) == {"layers.0": [7, 10], "layers.2": [16, 7]}
    assert weights(ConvEncoder((3, 17, 33), space, 7)) == {
        "layers.0": [32, 3, 3, 3],
        "layers.2": [64, 32, 3, 3],
        "layers.4": [128, 64, 3, 3],
        "layers.7": [7, 128 * 3 * 5],
        "layers.9": [5, 7],
    }
    assert weights(ConvDecoder((3, 17, 33), space, 7)) == {
        "first.0": [7, 10],
        "first.2": [128 * 3 * 5, 7],
        "steps.0": [128, 64, 4, 4],
        "steps.1": [64, 32, 4, 4],
        "steps.2": [32, 3, 4, 4],
    }
    assert weights(UNetCompletionDecoder(7, 2, (3, 17, 33), 9, width=4)) == {
        "first.0": [9, 9],
        "first.2": [16 * 3 * 5, 9],
        "glances.0": [4, 3, 3, 3],
        "glances.1": [8, 4, 3, 3],
        "glances.2": [16, 8, 3, 3],
        "steps.0": [32, 8, 4, 4],
        "steps.1": [16, 4, 4, 4],
        "steps.2": [8, 2, 4, 4],
        "meet.0": [2, 5, 3, 3],
        "meet.2": [3, 2, 3, 3],
    }


def test_images_of_any_size():
    for shape in ((3, 64, 64), (1, 9, 31), (2, 8, 5)):
        decoder = UNetCompletionDecoder(7, 2, shape)
        assert decoder(torch.zeros(2, 7), torch.zeros(2, 2), torch.zeros(2, *shape)).shape == (2, *shape)
        h = build_conv_trunk(shape, 11)(torch.zeros(2, *shape))
        assert h.shape == (2, 11)
        assert build_conv_decoder(11, shape, 7)(h).shape == (2, *shape)


@pytest.mark.parametrize(("name", "new"), hardmax.nn._RENAMED.items())
def test_former_names_warn_with_the_new_one(name, new):
    """Also the name of a module of the package, `mlp`."""
    with pytest.warns(DeprecationWarning, match=f"use hardmax.nn.{new}"):
        assert getattr(hardmax.nn, name) is getattr(hardmax.nn, new)

"""Reports of dVAEs and of priors over their tokens."""

import re

import pytest
import torch

from hardmax.applications.runs import read_run, render_report, train
from hardmax.applications.tokens.config import TokenPriorConfig
from hardmax.applications.tokens.report import colour_codes, measure_usage, tile_codes, tile_reconstructions


def words(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


@pytest.mark.parametrize("kind", ["dvae", "rgb-dvae"])
def test_usage_is_what_was_logged(trained, kind):
    run = read_run(trained(kind))
    usage = measure_usage(run, batch_size=7)
    assert usage.tokens.shape == (len(run.test_examples), *run.model.grid)
    assert usage.share.sum().item() == pytest.approx(1)
    described = re.match(r"Perplexity ([\d.]+) of (\d+) codes", usage.describe())
    # Another batch size changes the last digits of the scores, and with them a few tokens.
    assert float(described[1]) == pytest.approx(run.best.perplexity, abs=0.1)
    assert int(described[2]) == run.config.codes
    assert usage.share[usage.ranking].diff().max() <= 0


@pytest.mark.parametrize("kind", ["dvae", "rgb-dvae"])
def test_images_of_tokens(trained, kind):
    run = read_run(trained(kind))
    usage = measure_usage(run)
    height, width = run.test_examples.shape[2:]
    reconstructions = tile_reconstructions(run, usage)
    assert {(tile.width, tile.height) for _, row in reconstructions.rows for tile in row} == {(width, 3 * height + 2)}
    colours = colour_codes(run)
    assert colours.shape == (run.config.codes, 3)
    assert 0 <= colours.min() <= colours.max() <= 1
    ((_, (tile,)),) = tile_codes(run, usage).rows
    assert f"{run.config.codes} codes" in tile.alt


def test_a_code_looks_like_what_it_stands_for(trained):
    """Images are black except for one white cell: only the patch of that cell has a white centre."""
    from hardmax.applications.tokens.report import _extract_patches

    images = torch.zeros(2, 1, 28, 28)
    images[:, :, 8:12, 12:16] = 1
    patches, cell = _extract_patches(images, (7, 7))
    assert (cell, patches.shape) == (4, (2, 49, 144))
    middle = patches.view(2, 7, 7, 12, 12)[:, :, :, 4:8, 4:8]
    assert middle[:, 2, 3].min() == 1
    assert middle.sum() == 2 * 16


@pytest.mark.parametrize("kinds", [("dvae",), ("rgb-dvae",)])
def test_a_page(page, kinds):
    text = page(*kinds)
    for name in ("reconstructions", "codes", "usage"):
        assert f'id="{name}"' in text
    assert "Alive" in words(text)


def test_a_page_of_a_prior(trained, tmp_path):
    config = TokenPriorConfig(
        tokenizer=str(trained("dvae")),
        out=str(tmp_path / "prior"),
        epochs=1,
        batch_size=500,
        width=8,
        layers=1,
        heads=2,
    )
    assert train(config)
    text = render_report([read_run(tmp_path / "prior")])
    assert "Nearest images" in words(text)
    assert "Prior over 49 tokens of 12 codes" in words(text)

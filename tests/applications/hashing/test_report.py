"""Reports of hash encoders: the nearest images, the distances between codes, and the page."""

import re

import numpy as np
import pytest

from hardmax.applications.hashing.report import tile_nearest
from hardmax.applications.hashing.task import encode_bits
from hardmax.applications.runs import read_run
from hardmax.training.task import prepare_split

SECTIONS = ["numbers", "curves", "nearest", "distances", "configuration"]


def words(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_a_page(page):
    html = page("codes")
    assert re.findall(r'<section id="([a-z]+)"', html) == SECTIONS
    text = words(html)
    assert "Encoder of images to codes of 12 bits" in text
    assert "it used no labels" in text
    assert "The best epoch is the one with the lowest loss of the validation images" in text
    assert "ELBO" not in text
    assert "1.5 bytes" in text


def test_the_nearest_are_nearest_and_marked_by_their_class(trained):
    run = read_run(trained("codes"))
    train = prepare_split(run.config, run.images, "train")
    codes, queries = encode_bits(run.model, train), encode_bits(run.model, run.test_examples)
    nearest = tile_nearest(run.images, run.test_examples, queries, train, codes)
    labels = run.images.labels
    assert len(nearest.rows) == 8
    for i, (_, (query, *tiles)) in zip(range(0, 100, 100 // 8), nearest.rows, strict=False):
        number = int(query.alt.split()[-1])
        assert abs(number - i) <= 4
        distances = (codes != queries[number]).sum(1).numpy()
        for tile, expected in zip(tiles, np.sort(distances), strict=False):
            position = int(tile.alt.split()[-1])
            assert int(tile.caption[0]) == expected == distances[position]
            assert (tile.mark == "wrong") == (labels["train"][position] != labels["test"][number])


def test_two_runs_and_no_classes(page):
    both = words(page("codes", "codes-rgb"))
    assert "These numbers do not compare" in both
    assert '<figure class="wrong">' in page("codes")
    assert '<figure class="wrong">' not in page("codes-rgb")
    text = words(page("codes-rgb"))
    assert "Precision by epoch" not in text
    assert "distorted copies of one image" in text


@pytest.mark.parametrize("kind", ["codes", "codes-rgb"])
def test_the_command_is_whole(page, kind):
    assert "hardmax train --model hashing" in words(page(kind))

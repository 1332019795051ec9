"""Reports of hash encoders: what codes find, how far they are apart, pages."""

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
    found = page("codes")
    assert re.findall(r'<section id="([a-z]+)"', found) == SECTIONS
    said = words(found)
    assert "Encoder of pictures to codes of 12 bits" in said
    assert "no label was looked at" in said
    assert "The best epoch is the one with the lowest loss of the validation pictures" in said
    assert "ELBO" not in said
    assert "1.5 bytes" in said


def test_the_nearest_are_nearest_and_marked_by_their_class(trained):
    run = read_run(trained("codes"))
    train = prepare_split(run.config, run.images, "train")
    codes, queries = encode_bits(run.model, train), encode_bits(run.model, run.pictures)
    found = tile_nearest(run.images, run.pictures, queries, train, codes)
    labels = run.images.labels
    assert len(found.rows) == 8
    for i, (_, (query, *tiles)) in zip(range(0, 100, 100 // 8), found.rows, strict=False):
        number = int(query.alt.split()[-1])
        assert abs(number - i) <= 4
        distances = (codes != queries[number]).sum(1).numpy()
        for tile, expected in zip(tiles, np.sort(distances), strict=False):
            place = int(tile.alt.split()[-1])
            assert int(tile.caption[0]) == expected == distances[place]
            assert (tile.mark == "wrong") == (labels["train"][place] != labels["test"][number])


def test_two_runs_and_no_classes(page):
    both = words(page("codes", "codes-rgb"))
    assert "These numbers do not compare" in both
    assert '<figure class="wrong">' in page("codes")
    assert '<figure class="wrong">' not in page("codes-rgb")
    alone = words(page("codes-rgb"))
    assert "Precision by epoch" not in alone
    assert "distorted copies of one picture" in alone


@pytest.mark.parametrize("kind", ["codes", "codes-rgb"])
def test_the_command_is_whole(page, kind):
    assert "hardmax train --model hashing" in words(page(kind))

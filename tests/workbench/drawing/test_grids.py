"""Drawings of grids: colours of values, and SVG in units of cells."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from hardmax.drawing.grids import colour_signs, colour_values, draw_outline, draw_path, draw_shares
from hardmax.drawing.svg import COLOURS


def parse(markup):
    return list(ElementTree.fromstring(f"<svg>{markup}</svg>"))


def list_unit_edges(markup):
    """The edges of length 1 of an outline, as pairs of corners (x, y)."""
    edges = []
    for x, y, direction, end in re.findall(r"M(\d+) (\d+)([HV])(\d+)", parse(markup)[-1].get("d")):
        x, y, end = int(x), int(y), int(end)
        corners = [(i, y) for i in range(x, end + 1)] if direction == "H" else [(x, i) for i in range(y, end + 1)]
        edges += list(pairwise(corners))
    return edges


@pytest.mark.parametrize("seed", range(5))
def test_an_outline_separates_ones_from_zeros(seed):
    mask = np.random.default_rng(seed).random((6, 9)) < 0.4
    padded = np.pad(mask, 1)
    expected = set()
    for row in range(6):
        for column in range(9):
            if mask[row, column]:
                for down, right, edge in (
                    (-1, 0, ((column, row), (column + 1, row))),
                    (1, 0, ((column, row + 1), (column + 1, row + 1))),
                    (0, -1, ((column, row), (column, row + 1))),
                    (0, 1, ((column + 1, row), (column + 1, row + 1))),
                ):
                    if not padded[row + 1 + down, column + 1 + right]:
                        expected.add(edge)
    edges = list_unit_edges(draw_outline(mask, "#ffffff", width=0.1))
    assert len(edges) == len(set(edges))
    assert set(edges) == expected


def test_a_path_goes_through_the_centres_of_its_cells():
    border, line = parse(draw_path([(0, 0), (1, 1), (1, 2)], "#ffffff", width=0.2))
    assert line.get("points") == border.get("points") == "0.5,0.5 1.5,1.5 2.5,1.5"
    assert float(border.get("stroke-width")) > float(line.get("stroke-width")) == 0.2
    assert len(parse(draw_path([(0, 0)], "#ffffff", width=0.2, opacity=0.5))) == 1


def test_areas_of_discs_are_shares():
    discs = parse(draw_shares(np.array([[1.0, 0.0], [0.25, 0.5]]), "#ffffff"))
    radius = {(disc.get("cx"), disc.get("cy")): float(disc.get("r")) for disc in discs}
    assert set(radius) == {("0.5", "0.5"), ("0.5", "1.5"), ("1.5", "1.5")}
    assert radius["0.5", "1.5"] / radius["0.5", "0.5"] == pytest.approx(0.5, rel=0.01)


def test_colours_are_monotone_and_clipped():
    values = np.array([[-9.0, 0.0, 0.5, 1.0, 9.0]])
    pixels = np.asarray(colour_values(values, 0, 1)).astype(int)
    assert (pixels[0, 0] == pixels[0, 1]).all()
    assert (pixels[0, 3] == pixels[0, 4]).all()
    brightness = pixels[0].sum(-1)
    assert brightness[1] < brightness[2] < brightness[3]
    signs = np.asarray(colour_signs(values - 0.25, 0.5))
    assert signs[0, :, 3].tolist() == [255, 128, 128, 255, 255]
    orange, blue = (tuple(bytes.fromhex(COLOURS[i][1:])) for i in (1, 0))
    assert [tuple(colour) for colour in signs[0, :, :3]] == [blue, blue, orange, orange, orange]
    assert not np.asarray(colour_signs(np.zeros((2, 2)), 0.0))[..., 3].any()

"""The colours of outlines: structures that touch have different ones."""

import numpy as np
import pytest

from hardmax.applications.segmentation.atlas.atlas import Atlas
from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.results.outline_colours import choose_outline_colours, measure_difference
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, Label, LabelTable


def list_neighbours(labels):
    """Return the pairs of labels that touch."""
    pairs = set()
    for axis in range(3):
        first, second = (np.moveaxis(labels, axis, 0)[part] for part in (slice(1, None), slice(None, -1)))
        touching = first != second
        pairs |= {tuple(sorted(pair)) for pair in zip(first[touching].tolist(), second[touching].tolist(), strict=True)}
    return {pair for pair in pairs if 0 not in pair}


def test_structures_that_touch_have_different_colours():
    atlas = Atlas.from_pretrained(find_model(None) / "atlas")
    pairs = set().union(*(list_neighbours(np.array(atlas.kept)[labels.numpy()]) for labels in atlas.maps[:4]))
    cortex, ventral = (STRUCTURES.index(name) for name in ("cerebral_cortex", "ventral_DC"))
    assert (cortex, ventral) in pairs
    colours = choose_outline_colours(STRUCTURES)
    assert min(measure_difference(colours[i], colours[j]) for i, j in pairs) > 7
    assert all(max(colour) > 0.5 for colour in colours[1:])  # visible on a dark scan


def test_two_sides_of_one_colour_keep_it():
    table = LabelTable(
        (
            Label(0, "background", (0, 0, 0), ("background",)),
            Label(1, "left", (205, 62, 78), ("grey",)),
            Label(2, "similar", (165, 42, 42), ("grey",)),
            Label(3, "right", (205, 62, 78), ("grey",)),
        )
    )
    _, left, similar, right = choose_outline_colours(table)
    assert left == right
    assert measure_difference(left, similar) > 20
    assert measure_difference((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)) == pytest.approx(100, abs=0.01)

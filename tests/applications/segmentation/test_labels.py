"""The table of labels."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from hardmax.applications.segmentation.volumes.labels import _BY_NAME, STRUCTURES, Label, LabelTable

DATA = os.environ.get("HARDMAX_DATA")


@pytest.mark.data
def test_the_table_is_that_of_the_data():
    path = Path(DATA or ".") / "brain" / "labels.csv"
    if not path.is_file():
        pytest.skip("HARDMAX_DATA names no folder that has brain/labels.csv")
    with path.open() as file:
        rows = [(int(row["label"]), row["structure"]) for row in csv.DictReader(file)]
    assert rows == [(label.number, label.name) for label in STRUCTURES.labels]


def test_what_is_judged():
    assert STRUCTURES.judged_indices == list(range(1, 17))
    assert len({label.colour for label in STRUCTURES.labels}) == 19


def test_tissues():
    tissues = {label.name: label.tissues for label in STRUCTURES.labels}
    assert tissues["background"] == ("background",)
    assert tissues["hippocampus"] == tissues["cerebral_cortex"] == ("grey",)
    assert tissues["csf"] == tissues["third_ventricle"] == ("fluid",)
    assert len(tissues["ventral_DC"]) == 3


def test_freesurfer_s_numbers_are_unique_and_have_names():
    numbers = [number for numbers in _BY_NAME.values() for number in numbers]
    assert len(numbers) == len(set(numbers))
    assert list(_BY_NAME) == STRUCTURES.names


def test_numbers_there_and_back():
    numbers = np.random.default_rng(0).integers(0, 19, (4, 5, 6))
    indices, notes = STRUCTURES.to_indices(numbers)
    assert indices.dtype == np.uint8
    assert notes == []
    assert np.array_equal(STRUCTURES.to_numbers(indices), numbers)


def test_left_and_right_of_freesurfer_are_one():
    for left, right, name in ((2, 41, "cerebral_white_matter"), (10, 49, "thalamus"), (18, 54, "amygdala")):
        indices, _ = STRUCTURES.to_indices(np.array([left, right, 100_000]))
        assert indices.tolist() == [STRUCTURES.index(name)] * 2 + [18]


def test_unknown_numbers_are_other_and_named():
    indices, notes = STRUCTURES.to_indices(np.array([0, 3, 42, 999]))
    assert indices.tolist() == [0, 2, 2, 18]
    assert notes[1] == "unknown numbers 999 are read as other"


def test_a_table_of_ones_own():
    table = LabelTable((Label(0, "ground", (0, 0, 0), ("background",)), Label(300, "left", (9, 9, 9), ("grey",))))
    indices, _ = table.to_indices(np.array([300, 0]))
    assert indices.tolist() == [1, 0]
    assert table.to_numbers(indices).dtype == np.int16
    assert LabelTable.from_json(table.to_json()) == table
    assert LabelTable.from_json(STRUCTURES.to_json()) == STRUCTURES


def test_colour_table():
    lines = STRUCTURES.to_colour_table().splitlines()
    assert lines[3].split() == ["2", "cerebral_cortex", "205", "62", "78", "0"]
    assert len(lines) == 20


def test_a_large_map_is_read_in_parts(monkeypatch):
    numbers = np.random.default_rng(1).choice([0, 2, 41, 17, 53, 999], (7, 5, 3))
    whole = STRUCTURES.to_indices(numbers)
    monkeypatch.setattr("hardmax.applications.segmentation.volumes.labels._SLAB", 20)
    parts = STRUCTURES.to_indices(numbers)
    assert np.array_equal(whole[0], parts[0])
    assert whole[1] == parts[1]
    assert whole[0][numbers == 999].tolist() == [18] * int((numbers == 999).sum())
    empty, _ = STRUCTURES.to_indices(np.zeros((0, 3), int))
    assert empty.shape == (0, 3)

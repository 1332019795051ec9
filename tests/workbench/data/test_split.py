"""The split is complete, disjoint, and the same in every version."""

from collections import Counter

import pytest
import torch

from hardmax.data.images import assign_splits, complete_splits
from hardmax.errors import DataError


@pytest.mark.parametrize("count", [3, 4, 10, 11, 500])
def test_every_image_is_assigned_once(count):
    members = assign_splits([()] * count, ["validation", "test"], seed=1)
    assert list(members) == ["train", "validation", "test"]
    assert torch.equal(torch.cat(list(members.values())).sort().values, torch.arange(count))
    assert len(members["validation"]) == len(members["test"]) == max(1, count // 10)


def test_the_same_in_every_version():
    assert assign_splits([()] * 30, ["validation", "test"], seed=0)["test"].tolist() == [7, 12, 20]
    assert assign_splits([()] * 30, ["validation", "test"], seed=1)["test"].tolist() != [7, 12, 20]


def test_every_part_has_its_share_of_every_stratum():
    strata = [(i % 7 == 0, i % 3 == 0) for i in range(1000)]
    members = assign_splits(strata, ["validation", "test"], seed=3)
    assert [len(index) for index in members.values()] == [800, 100, 100]
    for index in members.values():
        counts = Counter(strata[i] for i in index.tolist())
        for stratum, count in Counter(strata).items():
            assert abs(counts[stratum] - count * len(index) / 1000) <= 2


def test_images_in_strata_of_one_are_assigned_as_often_as_any():
    strata = [i if i < 500 else "common" for i in range(1000)]
    count = sum(int((assign_splits(strata, ["validation"], seed=seed)["validation"] < 500).sum()) for seed in range(40))
    assert abs(count / 40 - 50) < 5


def test_given_parts_stay():
    pixels = torch.arange(40).view(40, 1, 1, 1)
    columns = complete_splits({"images": {"train": pixels, "test": pixels[:3]}}, seed=0, origin="here")
    assert list(columns) == ["images"]
    assert torch.equal(columns["images"]["test"], pixels[:3])
    assert len(columns["images"]["train"]) == 36


def test_labels_and_attributes_go_with_their_images():
    pixels, bits = torch.arange(40).view(40, 1, 1, 1), torch.arange(40)[:, None] % torch.tensor([2, 3])
    given = {"images": {"train": pixels}, "labels": {"train": torch.arange(40)}, "attributes": {"train": bits}}
    columns = complete_splits(given, seed=0, origin="here")
    for part in ("train", "validation", "test"):
        index = columns["images"][part].flatten()
        assert torch.equal(columns["labels"][part], index)
        assert torch.equal(columns["attributes"][part], bits[index])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train": 2}, "here: 2 images are too few to take validation and test from; at least 3"),
        ({"validation": 2, "test": 2}, "here: 0 images are too few to take train from; at least 1"),
    ],
)
def test_too_few(parts, message):
    images = {part: torch.zeros(count, 1, 1, 1) for part, count in parts.items()}
    with pytest.raises(DataError, match=message):
        complete_splits({"images": images}, seed=0, origin="here")

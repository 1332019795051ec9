"""The split is whole, disjoint, and the same for ever."""

import pytest
import torch

from hardmax.data.split import complete, deal
from hardmax.errors import DataError


@pytest.mark.parametrize("count", [3, 4, 10, 11, 500])
def test_every_image_is_dealt_once(count):
    dealt = deal(count, ["validation", "test"], seed=1)
    assert list(dealt) == ["train", "validation", "test"]
    assert torch.equal(torch.cat(list(dealt.values())).sort().values, torch.arange(count))
    assert len(dealt["validation"]) == len(dealt["test"]) == max(1, count // 10)


def test_the_same_for_ever():
    assert deal(30, ["validation", "test"], seed=0)["test"].tolist() == [7, 12, 20]
    assert deal(30, ["validation", "test"], seed=1)["test"].tolist() != [7, 12, 20]


def test_given_parts_stay():
    pixels = torch.arange(40).view(40, 1, 1, 1)
    images, labels = complete({"train": pixels, "test": pixels[:3]}, None, seed=0, origin="here")
    assert torch.equal(images["test"], pixels[:3])
    assert len(images["train"]) == 36
    assert labels is None
    images, labels = complete({"train": pixels}, {"train": torch.arange(40)}, seed=0, origin="here")
    assert all(torch.equal(images[part].flatten(), labels[part]) for part in ("train", "validation", "test"))


def test_too_few():
    with pytest.raises(DataError, match="here: 2 images are too few to take validation and test from; at least 3"):
        complete({"train": torch.zeros(2, 1, 1, 1)}, None, seed=0, origin="here")

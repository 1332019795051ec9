"""Attributes selected by name."""

import pytest
import torch

from hardmax.data import Images, choose_attributes
from hardmax.data.attributes import check_names, find_attribute
from hardmax.errors import ArgumentError, DataError

NAMES = ("5_o_Clock_Shadow", "Big_Nose", "Male", "Mouth_Slightly_Open", "No_Beard", "Smiling")


@pytest.fixture
def images():
    pixels = torch.zeros(20, 3, 4, 4, dtype=torch.uint8)
    bits = {part: torch.arange(120).view(20, 6) for part in ("train", "validation", "test")}
    return Images("faces", "made up", pixels, pixels, pixels, None, bits, NAMES)


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["Smiling", "Male"], [5, 2]),
        (["smiling", "MALE", "big-nose"], [5, 2, 1]),
        (["mouth slightly open", "5 o'clock shadow".replace("'", " ")], [3, 0]),
        (list(NAMES), list(range(6))),
    ],
)
def test_chosen_in_this_order(images, names, columns):
    chosen = choose_attributes(images, names)
    assert chosen.attribute_names == tuple(NAMES[column] for column in columns)
    for part in ("train", "validation", "test"):
        assert torch.equal(chosen.attributes[part], images.attributes[part][:, columns])
    assert chosen.train is images.train
    assert images.attribute_names == NAMES


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["smilling"], r"no attribute 'smilling': did you mean 'Smiling'\? the attributes are 5_o_Clock_Shadow, Big"),
        (["Male", "beard"], "no attribute 'beard': did you mean 'No_Beard'"),
        (["xyzzy"], "no attribute 'xyzzy': the attributes are"),
        ([""], "no attribute ''"),
        (["male", "Male"], "the attribute 'Male' is named twice in male, Male"),
        ([], "name at least one attribute; there are 5_o_Clock"),
    ],
)
def test_names_that_are_wrong(images, names, message):
    with pytest.raises(ArgumentError, match=message):
        choose_attributes(images, names)


def test_images_without_attributes(images):
    plain = Images("digits", "a file", images.train, images.train, images.train)
    with pytest.raises(DataError, match=r"digits has no attributes to choose from \(a file\)"):
        choose_attributes(plain, ["male"])


def test_a_single_name():
    assert find_attribute("no beard", NAMES) == 4
    assert check_names([" a ", "b"], "here") == ("a", "b")

"""Names and settings of the discrete latent, and the columns of a sheet of samples."""

import pytest
import torch

from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.report_labels import LatentNames, arrange_columns, read_latent_names, split_words
from hardmax.errors import ArgumentError
from hardmax.spaces import Binary, Categorical

FACES = LatentNames(("Smiling", "Male", "Mouth_Slightly_Open"), 2, has_attributes=True)
DIGITS = LatentNames(("class",), 10, has_attributes=False)
CLOTHES_FACTS = {"data": {"classes": ["coat", "T-shirt", "ankle boot"]}}
CLOTHES = LatentNames(("class",), 3, has_attributes=False, value_names=("coat", "T-shirt", "ankle boot"))


def make_attributes(count):
    return LatentNames(tuple(f"a{i}" for i in range(count)), 2, has_attributes=True)


def test_names_of_a_run():
    faces = read_latent_names(MixedConfig(attributes="smiling, male"), Binary(2), CLOTHES_FACTS)
    assert (faces.names, faces.value_count, faces.has_attributes) == (("smiling", "male"), 2, True)
    assert read_latent_names(MixedConfig(), Categorical(10), {}) == DIGITS
    assert read_latent_names(MixedConfig(), Categorical(3), CLOTHES_FACTS) == CLOTHES
    assert read_latent_names(MixedConfig(labels=0, categories=3), Categorical(3), CLOTHES_FACTS) == LatentNames(
        ("category",), 3, has_attributes=False
    )
    assert read_latent_names(MixedConfig(), Categorical(4), CLOTHES_FACTS).value_names == ()  # more values than classes


@pytest.mark.parametrize(("text", "setting"), [
    ("smiling=1", {0: 1}),
    ("male=0, mouth slightly open = 1", {1: 0, 2: 1}),
    ("MALE=1,smiling=0,", {1: 1, 0: 0}),
])  # fmt: skip
def test_settings(text, setting):
    assert FACES.parse_setting(text) == setting
    assert DIGITS.parse_setting("class=9") == {0: 9}


@pytest.mark.parametrize(("text", "message"), [
    ("smilng=1", "there is no attribute 'smilng': did you mean 'Smiling'"),
    ("glasses=1", "the attributes are Smiling, Male, Mouth_Slightly_Open"),
    ("smiling=2", r"Smiling must be 0 \(off\) or 1 \(on\), got '2'"),
    ("smiling=-1", "got '-1'"),
    ("smiling=yes", "got 'yes'"),
    ("smiling=", "got ''"),
    ("smiling", "expected NAME=VALUE, such as Smiling=1, got 'smiling'"),
    ("smiling=1,Smiling=0", "Smiling is set twice"),
    (" , ", "expected names with commas between them"),
])  # fmt: skip
def test_invalid_settings(text, message):
    with pytest.raises(ArgumentError, match=message):
        FACES.parse_setting(text)


def test_invalid_classes():
    with pytest.raises(ArgumentError, match="class must be a whole number from 0 to 9, got '10'"):
        DIGITS.parse_setting("class=10")
    with pytest.raises(ArgumentError, match="there is no class 'boot': did you mean 'ankle boot'"):
        CLOTHES.parse_setting("class=boot")
    with pytest.raises(ArgumentError, match="the values are coat, T-shirt, ankle boot"):
        CLOTHES.parse_setting("class=7up")
    with pytest.raises(ArgumentError, match="class must be a whole number from 0 to 2, got '3'"):
        CLOTHES.parse_setting("class=3")
    with pytest.raises(ArgumentError, match="did you mean 'class'"):
        DIGITS.parse_setting("clas=1")


def test_classes_by_name():
    assert CLOTHES.parse_setting("class=tshirt") == CLOTHES.parse_setting("class=1") == {0: 1}
    assert CLOTHES.parse_setting("class = Ankle_Boot") == {0: 2}
    assert CLOTHES.format_setting({0: 2}) == "class=ankle boot"
    assert arrange_columns(CLOTHES).heads == [["coat"], ["T-shirt"], ["ankle boot"]]


def test_a_setting_changes_nothing_else():
    z = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    assert FACES.apply_setting(z, {0: 1, 2: 0}).tolist() == [[1, 1, 0], [1, 1, 0]]
    assert z.tolist() == [[0, 1, 0], [1, 1, 1]]
    one_hot = torch.eye(10)[[3, 4]]
    assert DIGITS.apply_setting(one_hot, {0: 7}).argmax(-1).tolist() == [7, 7]
    assert DIGITS.apply_setting(one_hot, {0: 7}).sum() == 2
    assert DIGITS.apply_setting(one_hot, {}).equal(one_hot)
    assert DIGITS.get_values(one_hot).tolist() == [[3], [4]]
    assert FACES.get_values(z).tolist() == [[0, 1, 0], [1, 1, 1]]
    assert FACES.format_setting({1: 0, 0: 1}) == "Male=0 Smiling=1"


def test_words():
    assert list(split_words("a, b,,c ")) == ["a", "b", "c"]


def test_a_column_for_every_class():
    columns = arrange_columns(DIGITS)
    assert columns.heads == [[str(i)] for i in range(10)]
    assert columns.note == ""
    columns = arrange_columns(LatentNames(("class",), 50, has_attributes=False))
    assert len(columns.settings) == 20
    assert columns.note == "20 of 50 columns are shown"


def test_a_column_for_every_setting_of_the_attributes_that_are_not_fixed():
    columns = arrange_columns(FACES)
    assert len(columns.settings) == len({tuple(sorted(s.items())) for s in columns.settings}) == 8
    columns = arrange_columns(FACES, {1: 0})
    assert columns.variables == (0, 2, 1)
    assert columns.heads == [["0", "0", "0"], ["1", "0", "0"], ["0", "1", "0"], ["1", "1", "0"]]
    assert arrange_columns(FACES, {0: 1, 1: 0, 2: 1}).heads == [["1", "0", "1"]]


def test_what_varies():
    columns = arrange_columns(FACES, {1: 0}, [0])
    assert columns.settings == ({0: 0, 1: 0}, {0: 1, 1: 0})
    # an attribute that varies is not fixed, as in: --attributes smiling=1,male=0 --vary smiling
    assert arrange_columns(FACES, {0: 1, 1: 0}, [0]).settings == ({0: 0, 1: 0}, {0: 1, 1: 0})
    # an attribute that neither varies nor is fixed is drawn for each row
    assert arrange_columns(FACES, None, [2]).variables == (2,)


def test_at_most_eight_columns():
    columns = arrange_columns(make_attributes(5))
    assert len(columns.settings) == 8
    assert columns.variables == (0, 1, 2)
    assert "5 attributes would make 32 columns: a0, a1, a2 vary in 8" in columns.note
    assert arrange_columns(make_attributes(5), {0: 1, 4: 1}).note == ""
    with pytest.raises(ArgumentError, match="4 attributes to vary make 16 columns, at most 8"):
        arrange_columns(make_attributes(5), None, [0, 1, 2, 3])

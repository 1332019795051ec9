"""What the discrete latent means, and the columns of a grid of samples."""

import pytest
import torch

from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.report_labels import Meaning, arrange_columns, read_meaning, split_words
from hardmax.errors import ArgumentError
from hardmax.spaces import Binary, Categorical

FACES = Meaning(("Smiling", "Male", "Mouth_Slightly_Open"), 2, attributes=True)
DIGITS = Meaning(("class",), 10, attributes=False)
CLOTHES_SAID = {"data": {"classes": ["coat", "T-shirt", "ankle boot"]}}
CLOTHES = Meaning(("class",), 3, attributes=False, value_names=("coat", "T-shirt", "ankle boot"))


def many(count):
    return Meaning(tuple(f"a{i}" for i in range(count)), 2, attributes=True)


def test_what_a_run_s_latent_means():
    faces = read_meaning(MixedConfig(attributes="smiling, male"), Binary(2), CLOTHES_SAID)
    assert (faces.names, faces.values, faces.attributes) == (("smiling", "male"), 2, True)
    assert read_meaning(MixedConfig(), Categorical(10), {}) == DIGITS
    assert read_meaning(MixedConfig(), Categorical(3), CLOTHES_SAID) == CLOTHES
    assert read_meaning(MixedConfig(labels=0, categories=3), Categorical(3), CLOTHES_SAID) == Meaning(
        ("category",), 3, attributes=False
    )
    assert read_meaning(MixedConfig(), Categorical(4), CLOTHES_SAID).value_names == ()  # more values than classes


@pytest.mark.parametrize(("text", "setting"), [
    ("smiling=1", {0: 1}),
    ("male=0, mouth slightly open = 1", {1: 0, 2: 1}),
    ("MALE=1,smiling=0,", {1: 1, 0: 0}),
])  # fmt: skip
def test_what_is_set(text, setting):
    assert FACES.read(text) == setting
    assert DIGITS.read("class=9") == {0: 9}


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
def test_what_cannot_be_set(text, message):
    with pytest.raises(ArgumentError, match=message):
        FACES.read(text)


def test_classes_that_cannot_be():
    with pytest.raises(ArgumentError, match="class must be a whole number from 0 to 9, got '10'"):
        DIGITS.read("class=10")
    with pytest.raises(ArgumentError, match="there is no class 'boot': did you mean 'ankle boot'"):
        CLOTHES.read("class=boot")
    with pytest.raises(ArgumentError, match="the values are coat, T-shirt, ankle boot"):
        CLOTHES.read("class=7up")
    with pytest.raises(ArgumentError, match="class must be a whole number from 0 to 2, got '3'"):
        CLOTHES.read("class=3")
    with pytest.raises(ArgumentError, match="did you mean 'class'"):
        DIGITS.read("clas=1")


def test_classes_by_name():
    assert CLOTHES.read("class=tshirt") == CLOTHES.read("class=1") == {0: 1}
    assert CLOTHES.read("class = Ankle_Boot") == {0: 2}
    assert CLOTHES.format_setting({0: 2}) == "class=ankle boot"
    assert arrange_columns(CLOTHES).heads == [["coat"], ["T-shirt"], ["ankle boot"]]


def test_setting_changes_that_alone():
    z = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    assert FACES.put(z, {0: 1, 2: 0}).tolist() == [[1, 1, 0], [1, 1, 0]]
    assert z.tolist() == [[0, 1, 0], [1, 1, 1]]
    one_hot = torch.eye(10)[[3, 4]]
    assert DIGITS.put(one_hot, {0: 7}).argmax(-1).tolist() == [7, 7]
    assert DIGITS.put(one_hot, {0: 7}).sum() == 2
    assert DIGITS.put(one_hot, {}).equal(one_hot)
    assert DIGITS.values_of(one_hot).tolist() == [[3], [4]]
    assert FACES.values_of(z).tolist() == [[0, 1, 0], [1, 1, 1]]
    assert FACES.format_setting({1: 0, 0: 1}) == "Male=0 Smiling=1"


def test_words():
    assert list(split_words("a, b,,c ")) == ["a", "b", "c"]


def test_a_column_for_every_class():
    columns = arrange_columns(DIGITS)
    assert columns.heads == [[str(i)] for i in range(10)]
    assert columns.note == ""
    columns = arrange_columns(Meaning(("class",), 50, attributes=False))
    assert len(columns.settings) == 20
    assert columns.note == "shown are 20 of 50 columns"


def test_a_column_for_every_setting_of_what_is_not_fixed():
    columns = arrange_columns(FACES)
    assert len(columns.settings) == len({tuple(sorted(s.items())) for s in columns.settings}) == 8
    columns = arrange_columns(FACES, {1: 0})
    assert columns.variables == (0, 2, 1)
    assert columns.heads == [["0", "0", "0"], ["1", "0", "0"], ["0", "1", "0"], ["1", "1", "0"]]
    assert arrange_columns(FACES, {0: 1, 1: 0, 2: 1}).heads == [["1", "0", "1"]]


def test_what_varies():
    columns = arrange_columns(FACES, {1: 0}, [0])
    assert columns.settings == ({0: 0, 1: 0}, {0: 1, 1: 0})
    # what varies wins over what is fixed, as in: --attributes smiling=1,male=0 --vary smiling
    assert arrange_columns(FACES, {0: 1, 1: 0}, [0]).settings == ({0: 0, 1: 0}, {0: 1, 1: 0})
    # what neither varies nor is fixed is left to the rows
    assert arrange_columns(FACES, None, [2]).variables == (2,)


def test_at_most_eight_columns():
    columns = arrange_columns(many(5))
    assert len(columns.settings) == 8
    assert columns.variables == (0, 1, 2)
    assert "5 attributes would make 32 columns: a0, a1, a2 vary in 8" in columns.note
    assert arrange_columns(many(5), {0: 1, 4: 1}).note == ""
    with pytest.raises(ArgumentError, match="4 attributes to vary make 16 columns, at most 8"):
        arrange_columns(many(5), None, [0, 1, 2, 3])

"""Languages and texts: all sentences of a grammar are enumerated; parts of a text do not overlap."""

from itertools import product
from math import comb

import pytest
import torch

from hardmax.data import load_sequences
from hardmax.data.grammar import Grammar
from hardmax.data.sequences import format_tokens
from hardmax.errors import DataError


def has_matching_brackets(word):
    """Whether brackets match, by a stack."""
    stack = []
    for sign in word:
        if sign in "([":
            stack.append(sign)
        elif not stack or stack.pop() + sign not in ("()", "[]"):
            return False
    return not stack


def test_brackets_are_those_that_a_stack_accepts():
    data = load_sequences("brackets")
    sentences = {"".join(data.to_text(sentence).split()) for sentence in data.language}
    assert len(sentences) == len(data.language) == sum(comb(2 * n, n) // (n + 1) * 2**n for n in range(1, 5)) == 274
    brute = {"".join(word) for n in range(1, 7) for word in product("()[]", repeat=n) if has_matching_brackets(word)}
    assert {word for word in sentences if len(word) <= 6} == brute
    assert all(map(has_matching_brackets, sentences))


def test_agreement():
    data = load_sequences("agreement")
    texts = {data.to_text(sentence) for sentence in data.language}
    assert len(texts) == 12 * (1 + 2 * 12) == 300
    assert "two dogs see a cat" in texts
    assert "the birds sleep" in texts
    for wrong in ("two dogs sees a cat", "a dogs sleeps", "the dog sleeps a cat", "the birds"):
        assert wrong not in texts
    assert data.shape == (5,)
    assert len(data.symbols) == data.train.max() + 1 == 16


@pytest.mark.parametrize(
    ("rules", "length", "sentences"),
    [
        ("s -> a | s b", 3, ["a", "a b", "a b b"]),  # the name itself first
        ("s -> t\nt -> u\nu -> s | a", 4, ["a"]),  # in a circle
        ("s -> x y\nx -> a | a a\ny -> a | b", 3, ["a a", "a b", "a a a", "a a b"]),  # one sentence in two ways
        ("s -> a # a comment\n\n# another\ns -> b", 1, ["a", "b"]),  # a name twice
    ],
)
def test_grammars(rules, length, sentences):
    assert [" ".join(words) for words in Grammar.parse(rules).enumerate_sentences(length)] == sentences


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("", "has no rule"),
        ("s -> a\nnonsense", "line 2: expected a rule"),
        ("s -> a | | b", "line 1: a choice is empty"),
        ("s -> a |", "line 1: a choice is empty"),
        ("s -> a a a", "no sentence of at most 2 tokens"),
        ("s -> s", "no sentence"),
    ],
)
def test_invalid_grammars(rules, message):
    with pytest.raises(DataError, match=message):
        Grammar.parse(rules).enumerate_sentences(2)


def test_too_many_sentences(monkeypatch):
    monkeypatch.setattr("hardmax.data.grammar.MOST", 1000)
    with pytest.raises(DataError, match=r"more than 1,000 sentences of 5 tokens; give a smaller length"):
        Grammar.parse("s -> a | b | c | d | s s").enumerate_sentences(12)


def test_ambiguous_grammars_are_enumerated_once():
    """77 million derivations, of 12 sentences."""
    assert [len(words) for words in Grammar.parse("s -> " + "s " * 12 + "| a").enumerate_sentences(30)] == [1, 12, 23]


def test_sentences_are_drawn_evenly_and_the_same_ones_again(tmp_path):
    path = tmp_path / "small.grammar"
    path.write_text("s -> a | b | c d\n")
    data, again, other = (load_sequences(path, length=3, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(data.train, again.train)
    assert not torch.equal(data.train, other.train)
    counts = data.train.unique(dim=0, return_counts=True)[1]
    assert len(counts) == 3
    assert (counts - 5000 / 3).abs().max() < 5 * (5000 * 2 / 9) ** 0.5
    assert data.symbols == ("", "a", "b", "c", "d")
    assert data.name == "small"


def test_the_text_that_comes_with_hardmax():
    data = load_sequences("constitution")
    assert data.to_text(data.train[0]) == "The Constitution"
    assert data.to_text(data.test[-1]) == "have intervened."
    assert data.language is None
    assert len(data.symbols) < 80
    assert len(data.train) > 30_000


def test_parts_of_a_text_do_not_overlap(tmp_path):
    path = tmp_path / "text.txt"
    letters = [
        chr(0x4E00 + i) for i in range(200)
    ]  # every character occurs once, so that a piece identifies its position
    path.write_text("".join(letters[:100]) + "\n\n  " + "".join(letters[100:]), encoding="utf-8")
    data = load_sequences(path, length=10)
    places = [set(getattr(data, part).flatten().tolist()) for part in ("train", "validation", "test")]
    assert not places[0] & places[1]
    assert not places[1] & places[2]
    assert len(set().union(*places)) == 201
    assert len(data.train) == 160 - 9


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(DataError, match="give one of agreement, brackets, constitution, or the path"):
        load_sequences("agreemnt")
    short = tmp_path / "short.txt"
    short.write_text("too short")
    with pytest.raises(DataError, match=r"9 characters, too few for pieces of 16"):
        load_sequences(short)
    with pytest.raises(DataError, match="length must be at least 2"):
        load_sequences("constitution", length=1)


def test_what_is_written():
    symbols = ("", "a", "cat")
    assert format_tokens([0, 1, 0, 2, 0], symbols, " ") == "_ a _ cat"
    assert format_tokens([0, 0], symbols, " ") == ""

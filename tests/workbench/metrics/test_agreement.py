"""Matching of categories and classes: no other matching is better, and shuffled classes are recovered."""

from itertools import permutations

import pytest
import torch

from hardmax.metrics.codes import count_contingency, match_categories


def test_shuffled_names_are_found():
    classes = torch.arange(1000) % 10
    names = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    matched, share = match_categories(count_contingency(names[classes], classes, 10, 10))
    assert share == 1.0
    assert matched == names.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_none_is_better(seed):
    generator = torch.Generator().manual_seed(seed)
    categories, classes = torch.randint(4, (2, 60), generator=generator)
    matched, share = match_categories(count_contingency(categories, classes, 4, 4))
    every = [float((torch.tensor(order)[classes] == categories).double().mean()) for order in permutations(range(4))]
    assert share == pytest.approx(max(every))
    assert share == pytest.approx(float((torch.tensor(matched)[classes] == categories).double().mean()))


def test_more_or_fewer_categories_than_classes():
    matched, share = match_categories(torch.tensor([[0, 5, 0], [5, 0, 1]]))
    assert (matched, share) == ([1, 0, -1], pytest.approx(10 / 11))
    matched, share = match_categories(torch.tensor([[1], [7], [2]]))
    assert (matched, share) == ([1], 0.7)


def test_unknown_labels_are_not_counted():
    counts = count_contingency(torch.tensor([0, 1, 1]), torch.tensor([0, -1, 1]), 2, 2)
    assert counts.tolist() == [[1, 0], [0, 1]]

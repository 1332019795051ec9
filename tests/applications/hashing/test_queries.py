"""Queries of a split, the images that are searched for them, and the metrics of their retrieval."""

import numpy as np
import pytest
import torch

from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.hashing.queries import choose_of_each_class, prepare_queries
from hardmax.applications.hashing.task import measure_retrieval
from hardmax.data import load_images


def test_the_first_of_each_class():
    labels = torch.tensor([2, 0, 0, 2, -1, 2, 0, 1])
    assert choose_of_each_class(labels, 6).nonzero().squeeze(1).tolist() == [0, 1, 2, 3, 7]  # only one of class 1
    assert choose_of_each_class(labels, 3).nonzero().squeeze(1).tolist() == [0, 1, 7]
    assert int(choose_of_each_class(labels, 1).sum()) == 3  # at least one of each


def test_all_other_images_are_searched():
    images = load_images("sample")
    queries = prepare_queries(HashingConfig(searched="rest"), images, "test", 100)
    assert queries.labels is not None
    assert torch.bincount(queries.labels).tolist() == [10] * 10
    assert len(queries.others) == len(queries.other_labels) == 900 + 500
    everything = torch.cat([queries.images, queries.others]).sum((1, 2, 3)).sort().values
    expected = torch.cat([images.test, images.validation]).float().div(255).sum((1, 2, 3)).sort().values
    torch.testing.assert_close(everything, expected)


def test_queries_of_validation_do_not_search_test_images():
    images = load_images("sample")
    queries = prepare_queries(HashingConfig(searched="rest"), images, "validation", 100)
    assert len(queries.others) == 500 - 100


def test_training_images_are_searched_by_default():
    images = load_images("sample")
    queries = prepare_queries(HashingConfig(), images, "test", 30)
    assert torch.equal(queries.labels, images.labels["test"][:30])
    assert len(queries.others) == 0


def test_metrics_of_retrieval():
    codes = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    metrics = measure_retrieval(codes[:1], torch.tensor([0]), codes, torch.tensor([0, 0, 1, 1]))
    assert metrics == pytest.approx(
        {
            "precision": 0.5,
            "precision_1000": 0.5,
            "mean_average_precision": np.mean([1, (1 + 2 / 3) / 2]),
            "mean_average_precision_1000": np.mean([1, (1 + 2 / 3) / 2]),
        }
    )
    assert set(measure_retrieval(codes, None, codes, None).values()) == {None}

"""SelectKFeatures passes scikit-learn's checks, and refuses what it cannot use with an error that says why."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.utils.estimator_checks import parametrize_with_checks

import hardmax as hm
from hardmax.sklearn import SelectKFeatures

pytestmark = pytest.mark.plain

X = np.random.default_rng(0).normal(size=(30, 5))
Y = X[:, 0] > 0


@parametrize_with_checks([SelectKFeatures(1, steps=10, batch_size=16, hidden=(8,))])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("options", "words"), [
    ({"k": 0}, "k must be an integer of at least 1, got 0"),
    ({"k": -3}, "k must be an integer of at least 1, got -3"),
    ({"k": 6}, "k=6 features cannot be selected from 5; choose a smaller k"),
    ({"k": 0.5}, "k must be an integer of at least 1, got 0.5"),
    ({"k": True}, "k must be an integer"),
    ({"k": "2"}, "k must be an integer of at least 1, got '2'"),
    ({"k": None}, "k must be an integer"),
    ({"task": "ranking"}, "task must be one of auto, classification, regression, reconstruction; got 'ranking'"),
    ({"hidden": 64}, r"hidden must be a sequence of widths such as \(64,\), got 64"),
    ({"hidden": (64, 0)}, r"hidden\[1\] must be an integer of at least 1, got 0"),
    ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
    ({"batch_size": 1}, "batch_size must be an integer of at least 2, got 1"),
    ({"learning_rate": 0}, "learning_rate must be a positive number, got 0"),
    ({"score_learning_rate": float("nan")}, "score_learning_rate must be a positive number, got nan"),
    ({"annealing_share": 1.5}, "annealing_share must be a number from 0 to 1, got 1.5"),
    ({"gradient_estimator": "direct"}, "gradient_estimator must be an estimator of hardmax"),
    ({"gradient_estimator": hm.Direct()}, "must evaluate the loss at its samples alone"),
    ({"learning_rate": 1e30}, "choose a smaller learning_rate"),
])  # fmt: skip
def test_arguments(options, words):
    with pytest.raises(hm.ArgumentError, match=words):
        SelectKFeatures(**{"k": 2, "steps": 50, "random_state": 0, **options}).fit(X, Y)


def test_an_estimator_that_does_not_support_subsets():
    with pytest.raises(hm.NotExactError, match="LocalExpectation"):
        SelectKFeatures(2, gradient_estimator=hm.LocalExpectation()).fit(X, Y)


@pytest.mark.parametrize(("x", "y", "words"), [
    (np.where(X > 2, np.nan, X), Y, "Input X contains NaN"),
    (np.where(X > 2, np.inf, X), Y, "Input X contains infinity"),
    (X, np.where(Y, np.nan, 1.0), "Input y contains NaN"),
    (X[:0], Y[:0], "Found array with 0 sample"),
    (X[:1], Y[:1], "Found array with 1 sample"),
    (X[:, :0], Y, "Found array with 0 feature"),
    (X[:, 0], Y, "Expected 2D array, got 1D array"),
    (X[:, :, None], Y, "Found array with dim 3"),
    (X, Y[:10], "inconsistent numbers of samples"),
    (X, np.zeros(30, int), "at least two classes, got y with one class"),
    (X.astype(str), Y, None),
])  # fmt: skip
def test_data(x, y, words):
    if words is None:
        x = np.full(x.shape, "a")
        words = "could not convert string to float"
    with pytest.raises(ValueError, match=words):
        SelectKFeatures(2, steps=3).fit(x, y)


def test_sparse_data():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        SelectKFeatures(2).fit(csr_array(X), Y)


@pytest.mark.parametrize(("task", "y", "words"), [
    ("classification", None, "requires y to be passed, but the target y is None"),
    ("regression", None, "requires y to be passed, but the target y is None"),
    ("classification", X[:, 0], "one class for each example, got y that is continuous"),
    ("classification", X[:, :2] > 0, "one class for each example, got y that is multilabel-indicator"),
    ("regression", np.where(Y, "a", "b"), "regression needs y of numbers, got <U1"),
])  # fmt: skip
def test_targets(task, y, words):
    with pytest.raises(hm.ArgumentError, match=words):
        SelectKFeatures(2, task=task, steps=3).fit(X, y)


def test_transform_of_other_features():
    selector = SelectKFeatures(np.int64(2), steps=3).fit(X, Y)
    with pytest.raises(ValueError, match="X has 4 features, but SelectKFeatures is expecting 5 features"):
        selector.transform(X[:, :4])
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        selector.transform(X[:0])

"""SelectKFeatures on problems with a known answer, and with pipelines and searches.

Without the checks of shapes, which would take most of the time of a step.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import hardmax as hm
from hardmax.sklearn import SelectKFeatures

pytestmark = pytest.mark.plain


def draw_features(samples, features, seed=0):
    return np.random.default_rng(seed).normal(size=(samples, features))


@pytest.mark.parametrize("seed", range(2))
def test_features_that_are_useful_only_together(seed):
    """The class is an exclusive or: no feature alone, and no linear model, is better than chance."""
    X = draw_features(600, 15, seed)
    y = np.where(X[:, 3] * X[:, 11] > 0, "same sign", "other sign")
    selector = SelectKFeatures(2, steps=400, random_state=seed).fit(X, y)
    assert selector.get_support(indices=True).tolist() == [3, 11]
    assert selector.loss_curve_[-1] < selector.loss_curve_[0] - 0.2


@pytest.mark.parametrize("columns", [1, 2])
def test_regression(columns):
    X = draw_features(400, 15)
    y = np.stack([X[:, 2] - X[:, 5], X[:, 9] + 0.5 * X[:, 2]], 1)[:, :columns] + 0.1 * draw_features(400, columns, 1)
    selector = SelectKFeatures(1 + columns, steps=400, random_state=0).fit(X, y.squeeze(1) if columns == 1 else y)
    assert selector.get_support(indices=True).tolist() == [2, 5, 9][: 1 + columns]


def test_numbers_as_classes_or_as_numbers():
    """Integers are classes unless the task says otherwise; the order of the classes has no meaning."""
    X = draw_features(600, 6)
    y = np.digitize(X[:, 4], [-0.5, 0.5])
    assert SelectKFeatures(1, steps=200, random_state=0).fit(X, y).get_support(indices=True).tolist() == [4]
    as_numbers = SelectKFeatures(1, steps=200, random_state=0, task="regression").fit(X, y)
    assert as_numbers.get_support(indices=True).tolist() == [4]
    same = SelectKFeatures(1, steps=200, random_state=0).fit(X, y.astype(float))
    assert same.loss_curve_ == as_numbers.loss_curve_


def test_one_of_several_copies_is_selected():
    """Univariate scores would select copies of the strongest variable."""
    variables = draw_features(500, 3)
    y = variables @ [1.5, 1.2, 1.0]
    X = np.repeat(variables, 3, axis=1) + 0.1 * draw_features(500, 9, 1)
    selected = SelectKFeatures(3, steps=400, random_state=0).fit(X, y).get_support(indices=True)
    assert {i // 3 for i in selected} == {0, 1, 2}


def test_reconstruction_selects_one_feature_of_each_group():
    X = np.repeat(draw_features(500, 4), 3, axis=1) + 0.2 * draw_features(500, 12, 1)
    selector = SelectKFeatures(4, steps=400, random_state=0).fit(X)
    assert {i // 3 for i in selector.get_support(indices=True)} == {0, 1, 2, 3}
    ignored = SelectKFeatures(4, steps=400, random_state=0, task="reconstruction").fit(X, np.arange(500))
    assert ignored.loss_curve_ == selector.loss_curve_


@pytest.mark.parametrize(
    "estimator",
    [hm.Reinforce("leave-one-out"), hm.StraightThrough(), hm.AdaptiveImplicitMLE(), hm.PerturbedReinforce()],
    ids=str,
)
def test_gradient_estimators(estimator):
    X = draw_features(300, 8)
    y = X[:, [1, 6]].sum(1) > 0
    selector = SelectKFeatures(2, steps=200, random_state=0, gradient_estimator=estimator).fit(X, y)
    assert selector.get_support(indices=True).tolist() == [1, 6]


def test_a_linear_model_without_hidden_layers():
    X = draw_features(300, 8)
    y = X[:, 1] > X[:, 6]
    assert SelectKFeatures(2, steps=200, random_state=0, hidden=()).fit(X, y).get_support(indices=True).tolist() == [
        1,
        6,
    ]


def test_constant_features_are_not_selected():
    X = draw_features(300, 6)
    X[:, [0, 2]] = 0.1, 1e9
    selected = SelectKFeatures(4, steps=200, random_state=0).fit(X, X[:, 1:].sum(1)).get_support(indices=True)
    assert selected.tolist() == [1, 3, 4, 5]


@pytest.mark.parametrize(
    "change", [lambda X: 1e200 * X, lambda X: 1e-200 * X, lambda X: X + 1e6], ids=["large", "small", "shifted"]
)
def test_units_have_no_effect(change):
    X = draw_features(200, 8)
    y = X[:, 2] + X[:, 5]
    plain, changed = (SelectKFeatures(2, steps=100, random_state=0).fit(x, y) for x in (X, change(X)))
    np.testing.assert_allclose(plain.scores_, changed.scores_, atol=1e-3)
    without = SelectKFeatures(2, steps=100, random_state=0, standardize=False).fit(X * [1, 1, 1, 1, 1, 1, 1, 0], y)
    assert not without.get_support()[7]


def test_names_pipelines_searches_copies_and_pickles():
    X = pd.DataFrame(draw_features(200, 5), columns=list("abcde"))
    y = (X["b"] + X["d"] > 0).to_numpy()
    selector = SelectKFeatures(2, steps=100, random_state=0)
    search = GridSearchCV(make_pipeline(selector, LogisticRegression()), {"selectkfeatures__k": [1, 2]}, cv=3).fit(X, y)
    assert search.best_params_ == {"selectkfeatures__k": 2}
    fitted = search.best_estimator_[0]
    assert fitted.get_feature_names_out().tolist() == ["b", "d"]
    assert fitted.set_output(transform="pandas").transform(X).columns.tolist() == ["b", "d"]
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).scores_, fitted.scores_)
    assert not hasattr(clone(fitted), "scores_")
    assert not hasattr(selector, "scores_")
    back = fitted.set_output(transform="default").inverse_transform(fitted.transform(X))
    assert np.array_equal(back[:, [1, 3]], X[["b", "d"]])
    assert not back[:, [0, 2, 4]].any()

"""Feature selection for scikit-learn: exactly k features, chosen by a distribution over subsets that is learned."""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, final, get_args

import numpy as np
import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError, MissingExtraError
from hardmax.estimators import AbstractEstimator, GibbsCovariance
from hardmax.expectations import expectation
from hardmax.nn.mlp import build_mlp
from hardmax.random import make_generator
from hardmax.spaces import Subset
from hardmax.threads import use_one_thread

try:
    from sklearn.base import BaseEstimator
    from sklearn.feature_selection import SelectorMixin
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import type_of_target
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise MissingExtraError(
        "hardmax.sklearn needs scikit-learn 1.6 or newer: pip install 'hardmax[sklearn]'"
    ) from error

Task = Literal["auto", "classification", "regression", "reconstruction"]
Loss = Callable[[Tensor, Tensor], Tensor]


@final
class SelectKFeatures(SelectorMixin, BaseEstimator):
    r"""Selects exactly k features, those with which a small network predicts y best, or reconstructs X.

    Every feature has a score. Subsets of k features have the distribution $q(z) \propto \exp(\langle \mathrm{scores},
    z \rangle)$ of `hardmax.Subset`, and a network w that sees only the features of z is trained together with the
    scores:

    $$ \min_{\mathrm{scores}, \, w} \; \mathbb{E}_{(x, y)} \, \mathbb{E}_{z \sim q}[\mathrm{loss}(w(x \odot z), y)] $$

    The loss is the cross-entropy for classes, the squared error for numbers, and the squared error of all features
    without y. Each example of a batch has a z of its own. The number of features in z decreases geometrically from all
    to k during the first part of the training (`annealing_share`) and then stays k: the network learns at first from
    all features, so that features which are useful only together, such as the two of an exclusive or, are recognised.
    The features with the k largest scores are selected. All are different, since z is a subset.

    Bias: none with the default estimator, for the gradient of the expectation over z. Variance: each step uses
    `batch_size` draws of z. The selection depends on `random_state` where features are almost equally useful. Cost:
    about a millisecond for a step with a hundred features, with Numba; without Numba (the extra `solvers`) a step takes
    time in proportion to the number of features. The training uses one thread, on the CPU.

    Args:
        k: number of features to select, 1 to the number of features.
        task: "classification" (y are classes), "regression" (y are numbers, or rows of numbers), "reconstruction" (y is
            not used) or "auto": reconstruction if y is None, regression if y has a floating-point dtype or more than
            one column, and otherwise classification.
        hidden: widths of the hidden layers of the network; empty for a linear model.
        steps: number of training steps.
        batch_size: number of examples in a step, drawn with replacement.
        learning_rate: learning rate of Adam for the network.
        score_learning_rate: learning rate of Adam for the scores.
        annealing_share: share of the steps in which the number of features decreases from all to k, 0 to 1.
        standardize: scale features to mean 0 and variance 1. Without it, features have to be of comparable size, and a
            feature that is left out is seen as 0.
        gradient_estimator: how the gradient for the scores is estimated: an estimator of hardmax that supports `Subset`
            and evaluates the loss at its samples alone; None is `GibbsCovariance()`.
        random_state: seed; an integer gives the same selection in every call.

    Attributes:
        scores_: `[n_features]`, the scores; larger is better.
        support_: `[n_features]`, the mask of the selected features.
        loss_curve_: the mean loss of each step, which may increase while the number of features decreases. Empty where
            k is the number of features: all are selected, without training.
        n_features_in_: number of features in `fit`.
        feature_names_in_: their names, if X had names that are strings.

    Raises:
        MissingExtraError: on import, scikit-learn is not installed.
        ArgumentError: from `fit`, an argument cannot be used, such as k above the number of features. X or y with NaN,
            of a wrong shape or sparse raise the errors of scikit-learn. All of these are subclasses of `ValueError` or
            `TypeError`.

    Example:
        >>> import numpy as np
        >>> from hardmax.sklearn import SelectKFeatures
        >>> X = np.random.default_rng(0).normal(size=(300, 10))
        >>> y = X[:, 2] * X[:, 7] > 0  # each of the two features alone is useless
        >>> SelectKFeatures(2, steps=400, random_state=0).fit(X, y).get_support(indices=True)
        array([2, 7])

    References:
        Ours. With independent continuous relaxations, which may select a feature twice: Balin, Abid & Zou, "Concrete
        autoencoders: differentiable feature selection and reconstruction", 2019. A bit for each feature, where the
        number is not fixed: Yamada, Lindenbaum, Negahban & Kluger, "Feature selection using stochastic gates", 2020.
    """

    def __init__(
        self,
        k: int = 10,
        *,
        task: Task = "auto",
        hidden: Sequence[int] = (64,),
        steps: int = 1000,
        batch_size: int = 128,
        learning_rate: float = 0.005,
        score_learning_rate: float = 0.05,
        annealing_share: float = 0.6,
        standardize: bool = True,
        gradient_estimator: AbstractEstimator | None = None,
        random_state: Any = None,
    ) -> None:
        self.k = k
        self.task = task
        self.hidden = hidden
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.score_learning_rate = score_learning_rate
        self.annealing_share = annealing_share
        self.standardize = standardize
        self.gradient_estimator = gradient_estimator
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "SelectKFeatures":
        """Learn which features to select.

        Args:
            X: `[n_samples, n_features]`, numbers, at least two samples.
            y: `[n_samples]`, classes or numbers; `[n_samples, outputs]`, numbers; or None.

        Returns:
            The selector itself.
        """
        self._check_arguments()
        # float32 is what the network takes; the mean of large numbers needs more digits
        dtype = np.float64 if self.standardize else np.float32
        if y is None or self.task == "reconstruction":
            X, y = validate_data(self, X, dtype=dtype, ensure_min_samples=2), None
        else:
            X, y = validate_data(self, X, y, dtype=dtype, ensure_min_samples=2, multi_output=True)
        features = X.shape[1]
        if self.k > features:
            raise ArgumentError(f"k={self.k} features cannot be selected from {features}; choose a smaller k")
        x = torch.tensor(_standardize(X) if self.standardize else np.ascontiguousarray(X), dtype=torch.float32)
        outputs, target, loss = _prepare_target(self.task, x, y)
        self.scores_, self.loss_curve_ = self._train(x, outputs, target, loss)
        best = Subset(features, int(self.k)).argmax(torch.from_numpy(self.scores_))
        self.support_ = best.bool().numpy()
        return self

    def _check_arguments(self) -> None:
        if not isinstance(self.hidden, Sequence) or isinstance(self.hidden, str):
            raise ArgumentError(f"hidden must be a sequence of widths such as (64,), got {self.hidden!r}")
        whole = {"k": self.k, "steps": self.steps, "batch_size": self.batch_size}
        whole |= {f"hidden[{i}]": width for i, width in enumerate(self.hidden)}
        for name, number in whole.items():
            least = 2 if name == "batch_size" else 1  # estimators compare the draws of a batch
            if not isinstance(number, Integral) or isinstance(number, bool) or number < least:
                raise ArgumentError(f"{name} must be an integer of at least {least}, got {number!r}")
        rates = {"learning_rate": self.learning_rate, "score_learning_rate": self.score_learning_rate}
        for name, rate in rates.items():
            if not isinstance(rate, Real) or not 0 < rate < float("inf"):
                raise ArgumentError(f"{name} must be a positive number, got {rate!r}")
        if not isinstance(self.annealing_share, Real) or not 0 <= self.annealing_share <= 1:
            raise ArgumentError(f"annealing_share must be a number from 0 to 1, got {self.annealing_share!r}")
        if self.task not in get_args(Task):
            raise ArgumentError(f"task must be one of {', '.join(get_args(Task))}; got {self.task!r}")
        if not isinstance(self.gradient_estimator, AbstractEstimator | None):
            raise ArgumentError(
                f"gradient_estimator must be an estimator of hardmax such as GibbsCovariance(), or None; got "
                f"{self.gradient_estimator!r}"
            )

    def _train(self, x: Tensor, outputs: int, target: Tensor, loss: Loss) -> tuple[np.ndarray, list[float]]:
        """Return the scores `[n_features]` and the loss of each step."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        choice, noise = make_generator(seed, "data"), make_generator(seed, "noise")
        samples, features = x.shape
        estimator = GibbsCovariance() if self.gradient_estimator is None else self.gradient_estimator
        scores = x.new_zeros(features).requires_grad_()
        curve = []
        # One thread: the steps are small, and the result does not depend on the number of threads.
        with use_one_thread(), torch.enable_grad():
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(make_generator(seed, "init").initial_seed())
                network = build_mlp([features, *map(int, self.hidden), outputs]).to(x)
            optimizer = torch.optim.Adam(
                [
                    {"params": network.parameters(), "lr": self.learning_rate},
                    {"params": [scores], "lr": self.score_learning_rate},
                ]
            )
            for step in range(self.steps if self.k < features else 0):
                index = torch.randint(samples, (self.batch_size,), generator=choice, device=x.device)
                f = _MaskedLoss(network, loss, x[index], target[index])
                space = Subset(features, self._count_features(step, features))
                out = expectation(f, scores, space, estimator, samples=self.batch_size, generator=noise, validate=False)
                optimizer.zero_grad()
                out.value.backward()
                optimizer.step()
                curve.append(out.value.item())
        if not scores.isfinite().all():
            raise ArgumentError(
                f"the training diverged to scores that are not finite; choose a smaller learning_rate than "
                f"{self.learning_rate} or score_learning_rate than {self.score_learning_rate}, or set standardize=True"
            )
        return scores.detach().numpy(), curve

    def _count_features(self, step: int, features: int) -> int:
        """Return the number of features in z: geometrically from all to k, and then k."""
        annealing = self.annealing_share * self.steps
        left = max(0.0, 1 - step / annealing) if annealing else 0.0
        return max(int(self.k), round(self.k * (features / self.k) ** left))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _get_support_mask(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        check_is_fitted(self)
        return self.support_


class _MaskedLoss:
    """The loss of each example of a batch, with the features that its own z leaves."""

    def __init__(self, network: nn.Module, loss: Loss, x: Tensor, target: Tensor) -> None:
        self._network, self._loss, self._x, self._target = network, loss, x, target

    def __call__(self, z: Tensor) -> Tensor:
        """Return the loss `[C]` for z `[C, n_features]`; z number i belongs to example number i."""
        if len(z) != len(self._x):
            raise ArgumentError(
                "gradient_estimator must evaluate the loss at its samples alone, once each; use GibbsCovariance(), "
                "Reinforce('leave-one-out'), StraightThrough() or AdaptiveImplicitMLE()"
            )
        return self._loss(self._network(self._x * z), self._target)


def _standardize(X: np.ndarray) -> np.ndarray:
    """Return features of mean 0 and variance 1, and of 0 where they are constant."""
    largest = np.abs(X).max(0)
    return StandardScaler().fit_transform(X / np.where(largest > 0, largest, 1))  # squares of 1e200 would overflow


def _prepare_target(task: str, x: Tensor, y: Any) -> tuple[int, Tensor, Loss]:
    """Return the number of outputs of the network, the target of each example, and the loss."""
    if y is None:
        if task in ("classification", "regression"):
            raise ArgumentError(f"task={task!r} requires y to be passed, but the target y is None")
        return x.shape[1], x, _square_error
    if task == "auto":
        task = "regression" if y.dtype.kind == "f" or y.size > len(y) else "classification"
    if task == "classification":
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind not in ("binary", "multiclass"):
            raise ArgumentError(f"classification needs one class for each example, got y that is {kind}")
        classes, index = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        if len(classes) < 2:
            raise ArgumentError("classification needs at least two classes, got y with one class")
        return len(classes), torch.tensor(index, dtype=torch.int64), _cross_entropy
    if y.dtype.kind not in "buif":
        raise ArgumentError(f"regression needs y of numbers, got {y.dtype}")
    numbers = torch.tensor(_standardize(y.astype(np.float64).reshape(len(y), -1)), dtype=torch.float32)
    return numbers.shape[1], numbers, _square_error


def _square_error(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).square().mean(-1)


def _cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(prediction, target, reduction="none")

"""The decision problems: one record for each, with its data, space, network, metrics and drawing.

To add a problem, add a function that generates its data to `hardmax.data`, and one record here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.denoising import NETWORKS, build_pixel_grid, measure_pixels
from hardmax.data import Decisions, generate_knapsack, generate_path, load_images, make_noisy_images
from hardmax.errors import ArgumentError
from hardmax.spaces import AbstractSpace, GridPath, Knapsack, Perturbation

_MOST_CELLS = 2**16  # of a grid: a saved configuration of a few bytes cannot ask for more


def measure_regret(
    z: Float[Tensor, "N ..."], costs: Float[Tensor, "N ..."], best: Float[Tensor, "N ..."], space: AbstractSpace
) -> dict[str, float]:
    """Return the normalised regret of decisions, and the share of decisions that are as good as the best.

    `regret` is the sum of the regrets, divided by the sum of the absolute values of the optima; `optimal` is the share.

    Args:
        z: `[N, *event]`, decisions.
        costs: `[N, *score]`, true costs.
        best: `[N, *event]`, the best decisions for these costs.
        space: the space of decisions.

    Example:
        >>> import torch, hardmax as hm
        >>> costs, best = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> measure_regret(torch.eye(2), costs, best, hm.Categorical(2))
        {'regret': 0.5, 'optimal': 0.5}
    """
    costs = costs.double()
    optimum = space.dot(costs, space.statistics(best.double()))
    regret = space.dot(costs, space.statistics(z.double())) - optimum
    is_optimal = regret <= 1e-9 * (1 + optimum.abs())
    total = optimum.abs().sum().clamp_min(torch.finfo(torch.float64).tiny)
    return {"regret": float(regret.sum() / total), "optimal": float(is_optimal.double().mean())}


def build_feature_network(features: Sequence[int], scores: Sequence[int], hidden: int) -> nn.Module:
    """Return a linear layer from features to scores, or two with a hidden layer between them if `hidden` is not 0."""
    inputs, outputs = prod(features), prod(scores)
    if not hidden:
        return nn.Linear(inputs, outputs)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


BuildNetwork = Callable[[Sequence[int], Sequence[int], int], nn.Module]


@final
@dataclass(frozen=True)
class Problem:
    """The record of a decision problem.

    Attributes:
        name: its name in `--data`, and in saved models.
        decision: what is decided, in the plural.
        generate: returns the data of a run.
        build_space: returns the space of decisions, given the parameters of the data and the noise of perturbed scores.
        build_network: returns the network, given the shapes of features and scores and the width of a hidden layer; it
            maps `[N, *features]` to `[N, *score]`, or to the same number of scores in one dimension.
        networks: networks to choose from by `--network`, instead of `build_network`; the first is the default.
        measure: returns the metrics `regret` and `optimal`, see `measure_regret`.
        regret: what the number `regret` is.
        maximises: whether the costs are minus values, for the reader.
        draws_paths: whether the report draws decisions as paths through a grid.
        draws_images: whether the report draws features and decisions as images.
    """

    name: str
    decision: str
    generate: Callable[[DecisionsConfig], Decisions]
    build_space: Callable[[Mapping[str, Any], Perturbation | None], AbstractSpace]
    build_network: BuildNetwork = build_feature_network
    networks: Mapping[str, BuildNetwork] = field(default_factory=dict)
    measure: Callable[[Tensor, Tensor, Tensor, AbstractSpace], dict[str, float]] = measure_regret
    regret: str = "sum of regrets / sum of best"
    maximises: bool = False
    draws_paths: bool = False
    draws_images: bool = False

    def find_network(self, name: str | None) -> BuildNetwork:
        """Return the function that builds a network, by the network's name; None is the default.

        Raises:
            ArgumentError: the name is unknown.
        """
        if name is None:
            return next(iter(self.networks.values()), self.build_network)
        if name not in self.networks:
            choice = f"there are: {', '.join(self.networks)}" if self.networks else "it has only one; leave network out"
            raise ArgumentError(f"the problem {self.name} has no network {name!r}; {choice}")
        return self.networks[name]

    def describe_network(self, name: str | None, hidden: int) -> str:
        """Return a few words on a network, given its name and the width of a hidden layer."""
        if self.networks:
            return f"network {name or next(iter(self.networks))}"
        return f"network with a hidden layer of {hidden}" if hidden else "linear network"


def _list_sizes(config: DecisionsConfig) -> dict[str, int]:
    return {"train": config.examples, "validation": config.validation_examples, "test": config.test_examples}


def _generate_path(config: DecisionsConfig) -> Decisions:
    return generate_path(
        _list_sizes(config),
        grid=config.grid,
        features=config.features,
        degree=config.degree,
        noise=config.noise,
        seed=config.seed,
    )


def _generate_knapsack(config: DecisionsConfig) -> Decisions:
    return generate_knapsack(
        _list_sizes(config),
        items=config.items,
        capacity=config.capacity,
        features=config.features,
        degree=config.degree,
        noise=config.noise,
        seed=config.seed,
    )


def _generate_denoising(config: DecisionsConfig) -> Decisions:
    images = load_images(config.images, data_dir=config.data_dir, seed=config.seed)
    return make_noisy_images(
        images, _list_sizes(config), flips=config.flips, occlusion=config.occlusion, seed=config.seed
    )


def _build_grid_paths(parameters: Mapping[str, Any], perturbation: Perturbation | None) -> GridPath:
    height, width = parameters["grid"]
    if not all(isinstance(size, int) for size in (height, width)) or height * width > _MOST_CELLS:
        raise ArgumentError(f"a grid has at most {_MOST_CELLS:,} cells, got {height} x {width}")
    return GridPath(height, width, perturbation=perturbation)


def _build_knapsacks(parameters: Mapping[str, Any], perturbation: Perturbation | None) -> Knapsack:
    return Knapsack(parameters["weights"], parameters["capacity"], perturbation=perturbation or Perturbation())


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("path", "paths through a grid", _generate_path, _build_grid_paths, draws_paths=True),
        Problem("knapsack", "sets of items", _generate_knapsack, _build_knapsacks, maximises=True),
        Problem(
            "denoising",
            "clean binary images",
            _generate_denoising,
            build_pixel_grid,
            networks=NETWORKS,
            measure=measure_pixels,
            regret="share of wrong pixels",
            draws_images=True,
        ),
    )
}


def find_problem(name: str) -> Problem:
    """Return a problem by its name.

    Raises:
        ArgumentError: the name is unknown.
    """
    if name not in PROBLEMS:
        raise ArgumentError(f"there is no problem {name!r}; there are: {', '.join(PROBLEMS)}")
    return PROBLEMS[name]

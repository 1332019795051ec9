"""The decision problems: one record for each, with its data, space, network, metrics and drawing.

To add a problem, add a function that generates or reads its data to `hardmax.data`, and one record here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.denoising import NETWORKS, build_pixel_grid, measure_pixels
from hardmax.applications.decisions.networks import build_map_network
from hardmax.data import (
    Decisions,
    generate_knapsack,
    generate_maps,
    generate_path,
    load_images,
    make_noisy_images,
    read_warcraft,
)
from hardmax.errors import ArgumentError
from hardmax.spaces import AbstractSpace, GridPath, Knapsack, Perturbation

_MOST_CELLS = 2**16  # of a grid: a saved configuration of a few bytes cannot ask for more
TOLERANCE = 1e-6
"""Relative difference up to which two decisions are equally good: costs are float32."""


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
    is_optimal = regret <= TOLERANCE * (1 + optimum.abs())
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
        generate: returns the data of a run, generated or read.
        build_space: returns the space of decisions, given the parameters of the data and the noise of perturbed scores.
        build_network: returns the network, given the shapes of features and scores and the width of a hidden layer; it
            maps `[N, *features]` to `[N, *score]`, or to the same number of scores in one dimension.
        networks: networks to choose from by `--network`, instead of `build_network`; the first is the default.
        noise: the noise of perturbed scores, see `Perturbation`.
        measure: returns the metrics `regret` and `optimal`, see `measure_regret`.
        regret: what the number `regret` is.
        maximises: whether the costs are minus values, for the reader.
        drawing: how the report draws decisions: as paths through a grid, as paths on maps, as images, or not at all.
    """

    name: str
    decision: str
    generate: Callable[[DecisionsConfig], Decisions]
    build_space: Callable[[Mapping[str, Any], Perturbation | None], AbstractSpace]
    build_network: BuildNetwork = build_feature_network
    networks: Mapping[str, BuildNetwork] = field(default_factory=dict)
    noise: Literal["normal", "multiplicative"] = "normal"
    measure: Callable[[Tensor, Tensor, Tensor, AbstractSpace], dict[str, float]] = measure_regret
    regret: str = "sum of regrets / sum of best"
    maximises: bool = False
    drawing: Literal["paths", "maps", "images"] | None = None

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
            return f"{name or next(iter(self.networks))} network"
        return f"network with a hidden layer of {hidden}" if hidden else "linear network"


def _list_sizes(config: DecisionsConfig) -> dict[str, int]:
    return {"train": config.examples, "validation": config.validation_examples, "test": config.test_examples}


def _list_generator_options(config: DecisionsConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in ("features", "degree", "noise", "seed")}


def _generate_path(config: DecisionsConfig) -> Decisions:
    return generate_path(_list_sizes(config), grid=config.grid, **_list_generator_options(config))


def _generate_knapsack(config: DecisionsConfig) -> Decisions:
    return generate_knapsack(
        _list_sizes(config), items=config.items, capacity=config.capacity, **_list_generator_options(config)
    )


def _generate_denoising(config: DecisionsConfig) -> Decisions:
    images = load_images(config.images, data_dir=config.data_dir, seed=config.seed)
    return make_noisy_images(
        images, _list_sizes(config), flips=config.flips, occlusion=config.occlusion, seed=config.seed
    )


def _generate_maps(config: DecisionsConfig) -> Decisions:
    return generate_maps(_list_sizes(config), cells=config.cells, seed=config.seed)


def _read_warcraft(config: DecisionsConfig) -> Decisions:
    if config.data_dir is None:
        raise ArgumentError(
            "data warcraft are maps that you have: give the folder of the published files of one size "
            "(--data-dir warcraft_shortest_path/12x12), or generate maps (--data maps)"
        )
    return read_warcraft(config.data_dir, _list_sizes(config))


def _get_grid(parameters: Mapping[str, Any]) -> tuple[int, int]:
    height, width = parameters["grid"]
    if not all(isinstance(size, int) for size in (height, width)) or height * width > _MOST_CELLS:
        raise ArgumentError(f"a grid has at most {_MOST_CELLS:,} cells, got {height} x {width}")
    return height, width


def _build_grid_paths(parameters: Mapping[str, Any], perturbation: Perturbation | None) -> GridPath:
    return GridPath(*_get_grid(parameters), perturbation=perturbation)


def _build_map_paths(parameters: Mapping[str, Any], perturbation: Perturbation | None) -> GridPath:
    grid = _get_grid(parameters)
    return GridPath(*grid, connectivity=8, monotone=False, on="nodes", perturbation=perturbation)


def _build_knapsacks(parameters: Mapping[str, Any], perturbation: Perturbation | None) -> Knapsack:
    return Knapsack(parameters["weights"], parameters["capacity"], perturbation=perturbation or Perturbation())


_MAPS = Problem(
    "maps",
    "paths on maps",
    _generate_maps,
    _build_map_paths,
    networks={"convolutional": build_map_network},
    noise="multiplicative",  # the solver needs scores below zero
    drawing="maps",
)
PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("path", "paths through a grid", _generate_path, _build_grid_paths, drawing="paths"),
        Problem("knapsack", "sets of items", _generate_knapsack, _build_knapsacks, maximises=True),
        _MAPS,
        replace(_MAPS, name="warcraft", generate=_read_warcraft),
        Problem(
            "denoising",
            "clean binary images",
            _generate_denoising,
            build_pixel_grid,
            networks=NETWORKS,
            measure=measure_pixels,
            regret="share of wrong pixels",
            drawing="images",
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

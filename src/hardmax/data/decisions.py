"""Decision problems with features: costs that depend on features in an unknown way, generated from a formula.

`generate_path` and `generate_knapsack` are the two problems of the literature on "predict, then optimize".
`read_examples` reads features and costs of your own. Images to clean are in `noisy_images.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float32, Shaped
from torch import Tensor

from hardmax.data.npz import read_npz
from hardmax.errors import DataError
from hardmax.files import expand_path
from hardmax.random import make_generator

PARTS = ("train", "validation", "test")
LIGHTEST, HEAVIEST = 3.0, 7.99
"""Bounds of the weights of the items of `generate_knapsack`."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """Examples of one decision problem, in three parts: features, and the true costs of everything that can be chosen.

    Where the right decision is known and only its number of wrong entries counts, there are targets instead of costs.

    Attributes:
        name: name of the problem.
        source: how the examples were made, in one line.
        parameters: what all examples share, as plain numbers and lists: the size of the grid, or the weights of items.
        train: `[N, *features]`, float32, or uint8 for images.
        validation: `[N, *features]`.
        test: `[N, *features]`.
        costs: `[N, *score]`, float32, of each part, by its name; smaller is better. To maximise values, costs are minus
            the values. Empty if there are targets.
        targets: `[N, *event]`, uint8, zeros and ones, of each part: the right decisions. The cost of a decision is the
            number of entries that differ. Empty if there are costs.

    Example:
        >>> from hardmax.data import generate_path
        >>> data = generate_path({"train": 100, "validation": 20, "test": 50})
        >>> data
        Decisions(path: 100 train, 20 validation, 50 test, 5 features, 40 costs)
        >>> data.train.shape, data.costs["train"].shape, data.parameters
        (torch.Size([100, 5]), torch.Size([100, 40]), {'grid': [5, 5]})
    """

    name: str
    source: str
    parameters: dict[str, Any]
    train: Shaped[Tensor, "train *features"]
    validation: Shaped[Tensor, "validation *features"]
    test: Shaped[Tensor, "test *features"]
    costs: dict[str, Tensor] = field(default_factory=dict)
    targets: dict[str, Tensor] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the features of one example."""
        return tuple(self.train.shape[1:])

    @property
    def facts(self) -> dict[str, Any]:
        """Shapes and the parameters of the problem, as recorded in `config.json`."""
        kind, answers = self._answers
        return {"shape": list(self.shape), kind: list(answers["train"].shape[1:]), "parameters": self.parameters}

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors: features and costs, or targets, of each part."""
        kind, answers = self._answers
        features = {f"{part} features": getattr(self, part) for part in PARTS}
        return features | {f"{part} {kind}": answers[part] for part in PARTS}

    @property
    def _answers(self) -> tuple[str, dict[str, Tensor]]:
        """What is known of the decisions, and its name: costs or targets."""
        return ("costs", self.costs) if self.costs else ("targets", self.targets)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in PARTS)
        kind, answers = self._answers
        features, numbers = ("x".join(map(str, shape)) for shape in (self.shape, answers["train"].shape[1:]))
        return f"Decisions({self.name}: {sizes}, {features} features, {numbers} {kind})"


def generate_path(
    sizes: Mapping[str, int],
    *,
    grid: int = 5,
    features: int = 5,
    degree: int = 4,
    noise: float = 0.5,
    seed: int = 0,
) -> Decisions:
    r"""Generate shortest paths through a grid, from the top left cell to the bottom right one.

    With features $x \sim \mathcal{N}(0, I_p)$ and a matrix B of independent zeros and ones, the cost of edge j is

    $$ c_j = \frac{\big((B x)_j / \sqrt{p} + 3\big)^{\mathrm{degree}} + 1}{3.5^{\mathrm{degree}}} \, u_j, \qquad
       u_j \sim \mathrm{U}[1 - \mathrm{noise}, 1 + \mathrm{noise}]. $$

    For degree 1, costs are linear in the features. For higher degrees they are not, and a linear model is misspecified:
    the case in which the loss matters most.

    Args:
        sizes: number of examples of the parts "train", "validation" and "test".
        grid: number of rows and of columns, at least 2; edges are in the order of `GridPath(grid, grid).edges`.
        features: p.
        degree: degree of the polynomial.
        noise: half-width of the multiplicative noise, from 0 to 1.
        seed: seed of B, the features and the noise. Parts do not depend on the sizes of other parts.

    References:
        Elmachtoub & Grigas, "Smart 'predict, then optimize'", 2022, section 6.1.
    """
    edges = 2 * grid * (grid - 1)
    examples = _generate_examples("path", sizes, edges, features, degree, noise, seed)
    source = f"shortest paths through a {grid} x {grid} grid, {_describe(features, degree, noise)}"
    return _make_decisions("path", source, {"grid": [grid, grid]}, examples)


def generate_knapsack(
    sizes: Mapping[str, int],
    *,
    items: int = 32,
    constraints: int = 2,
    capacity: float = 20.0,
    features: int = 5,
    degree: int = 4,
    noise: float = 0.5,
    seed: int = 0,
) -> Decisions:
    r"""Generate knapsacks: choose the items of the largest total value whose weights fit.

    With c the costs of `generate_path`, for the items instead of edges, the values are $\lceil 5 c_j \rceil$, and the
    costs minus the values. Weights are the same for all examples, multiples of 0.01 from 3 to 7.99.

    Args:
        sizes: number of examples of the parts "train", "validation" and "test".
        items: number of items.
        constraints: number of kinds of weights.
        capacity: limit of each kind of weight.
        features: p.
        degree: degree of the polynomial.
        noise: half-width of the multiplicative noise, from 0 to 1.
        seed: seed of the weights, B, the features and the noise.

    References:
        Elmachtoub & Grigas, 2022 (the formula); Mandi, Demirović, Stuckey & Guns, "Smart predict-and-optimize for hard
        combinatorial optimization problems", 2020 (knapsacks).
    """
    examples = _generate_examples("knapsack", sizes, items, features, degree, noise, seed)
    for _, costs in examples.values():
        costs.mul_(5).ceil_().neg_()
    low, high = round(100 * LIGHTEST), round(100 * HEAVIEST) + 1
    generator = make_generator(seed, "decisions", "knapsack", "weights")
    weights = torch.randint(low, high, (constraints, items), generator=generator).double() / 100
    parameters = {"weights": weights.tolist(), "capacity": [float(capacity)] * constraints}
    kinds = f"{constraints} kinds of weights" if constraints > 1 else "weights"
    source = f"knapsacks of {items} items with {kinds}, {_describe(features, degree, noise)}"
    return _make_decisions("knapsack", source, parameters, examples)


def _describe(features: int, degree: int, noise: float) -> str:
    return f"{features} features, costs of degree {degree} with noise of {noise:g}"


Examples = tuple[Tensor, Tensor]
"""Features and costs of some examples."""


def _generate_examples(
    problem: str, sizes: Mapping[str, int], costs: int, features: int, degree: int, noise: float, seed: int
) -> dict[str, Examples]:
    """Return features and costs of each part, in float64."""

    def generator(name: str) -> torch.Generator:
        return make_generator(seed, "decisions", problem, name)

    matrix = torch.randint(2, (costs, features), generator=generator("matrix")).double()
    examples = {}
    for part in PARTS:
        x = torch.randn(sizes[part], features, generator=generator(part), dtype=torch.float64)
        mean = ((x @ matrix.mT / features**0.5 + 3) ** degree + 1) / 3.5**degree
        uniform = torch.rand(mean.shape, generator=generator(f"{part} noise"), dtype=torch.float64)
        examples[part] = x, mean * (1 + noise * (2 * uniform - 1))
    return examples


def _make_decisions(name: str, source: str, parameters: dict[str, Any], examples: Mapping[str, Examples]) -> Decisions:
    train, validation, test = (examples[part][0].float() for part in PARTS)
    costs = {part: c.float() for part, (_, c) in examples.items()}
    return Decisions(name, source, parameters, train, validation, test, costs=costs)


def read_examples(
    path: str | Path, features: tuple[int, ...], costs: tuple[int, ...] | None = None
) -> tuple[Float32[Tensor, "N ..."], Float32[Tensor, "N ..."] | None]:
    """Read examples of your own: an .npz file with the arrays `features` and `costs`.

    Args:
        path: the file.
        features: shape of the features of one example.
        costs: shape of the costs of one example; None: costs are not read.

    Returns:
        Features `[N, *features]` and costs `[N, *costs]`, or None.

    Raises:
        DataError: the file cannot be read, an array is missing or has another shape, or holds NaN or inf.
    """
    path = expand_path(path)
    shapes = {"features": features} | ({} if costs is None else {"costs": costs})
    arrays = read_npz(path, only=tuple(shapes))
    tensors = {name: _check_array(arrays.get(name), name, shape, path) for name, shape in shapes.items()}
    counts = {name: len(tensor) for name, tensor in tensors.items()}
    if len(set(counts.values())) > 1:
        raise DataError(f"{path} has {counts['features']:,} features and {counts['costs']:,} costs; give one of each")
    return tensors["features"], tensors.get("costs")


def _check_array(array: np.ndarray | None, name: str, shape: tuple[int, ...], path: Path) -> Tensor:
    expected = f"[N, {', '.join(map(str, shape))}]"
    if array is None:
        raise DataError(f"{path} has no array {name!r}; save numbers of shape {expected}: np.savez(path, {name}=...)")
    if array.dtype.kind not in "fiub" or array.shape[1:] != shape or not len(array):
        raise DataError(
            f"{name} in {path} must be numbers of shape {expected}, as the model has learned them, got "
            f"{array.dtype} {list(array.shape)}"
        )
    tensor = torch.from_numpy(array.astype(np.float32))
    if not tensor.isfinite().all():
        raise DataError(
            f"{name} in {path} must be finite, got NaN, inf or numbers beyond float32; remove such examples"
        )
    return tensor

"""Decision problems: the formula, seeds, sizes, and files of the user."""

import math

import numpy as np
import pytest
import torch

from hardmax.data import generate_knapsack, generate_path
from hardmax.data.decisions import HEAVIEST, LIGHTEST, PARTS, read_examples
from hardmax.errors import DataError
from hardmax.random import make_generator

SIZES = {"train": 30, "validation": 7, "test": 11}


def recompute(problem, part, count, costs, features, degree, noise, seed):
    """Return features and costs, one number at a time."""
    draw = {name: make_generator(seed, "decisions", problem, name) for name in ("matrix", part, f"{part} noise")}
    matrix = torch.randint(2, (costs, features), generator=draw["matrix"]).tolist()
    x = torch.randn(count, features, generator=draw[part], dtype=torch.float64).tolist()
    uniform = torch.rand(count, costs, generator=draw[f"{part} noise"], dtype=torch.float64).tolist()
    rows = []
    for i in range(count):
        row = []
        for j in range(costs):
            inner = sum(matrix[j][k] * x[i][k] for k in range(features)) / math.sqrt(features)
            low, high = 1 - noise, 1 + noise
            row.append(((inner + 3) ** degree + 1) / 3.5**degree * (low + (high - low) * uniform[i][j]))
        rows.append(row)
    return torch.tensor(x), torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("degree", "noise"), [(1, 0.0), (4, 0.5), (6, 1.0)])
def test_costs_of_paths(part, degree, noise):
    data = generate_path(SIZES, grid=3, features=4, degree=degree, noise=noise, seed=5)
    x, costs = recompute("path", part, SIZES[part], 12, 4, degree, noise, 5)
    torch.testing.assert_close(getattr(data, part), x.float())
    torch.testing.assert_close(data.costs[part], costs.float())
    assert data.parameters == {"grid": [3, 3]}


def test_values_and_weights_of_knapsacks():
    data = generate_knapsack(SIZES, items=6, degree=2, seed=1)
    _, costs = recompute("knapsack", "test", 11, 6, 5, 2, 0.5, 1)
    torch.testing.assert_close(data.costs["test"], -(5 * costs).ceil().float())
    weights = np.array(data.parameters["weights"])
    assert weights.shape == (2, 6)
    assert weights.min() >= LIGHTEST
    assert weights.max() <= HEAVIEST
    np.testing.assert_allclose(100 * weights, np.round(100 * weights), rtol=0, atol=1e-9)
    assert data.parameters["capacity"] == [20.0, 20.0]
    many = np.array(generate_knapsack(SIZES, items=5000).parameters["weights"])
    assert (many.min(), many.max()) == (LIGHTEST, HEAVIEST)


@pytest.mark.parametrize("generate", [generate_path, generate_knapsack])
def test_seeds_and_sizes(generate):
    data, again, other = generate(SIZES), generate(SIZES), generate(SIZES, seed=1)
    assert [len(getattr(data, part)) for part in PARTS] == [30, 7, 11]
    for name, tensor in data.tensors.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, again.tensors[name])
        assert not torch.equal(tensor, other.tensors[name])
    more = generate({**SIZES, "train": 60})
    assert torch.equal(more.test, data.test)
    assert torch.equal(more.costs["test"], data.costs["test"])
    assert not torch.equal(data.train[:7], data.validation)


def test_your_own_examples(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, features=np.ones((4, 5)), costs=np.arange(12).reshape(4, 3))
    features, costs = read_examples(path, (5,), (3,))
    assert features.dtype == costs.dtype == torch.float32
    assert costs[3].tolist() == [9, 10, 11]
    assert read_examples(path, (5,))[1] is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"costs": np.ones((4, 3))}, r"no array 'features'; save numbers of shape \[N, 5\]"),
        ({"features": np.ones((4, 5))}, "no array 'costs'"),
        ({"features": np.ones((4, 6)), "costs": np.ones((4, 3))}, r"shape \[N, 5\].* got float64 \[4, 6\]"),
        ({"features": np.ones((4, 5)), "costs": np.full((4, 3), np.nan)}, "costs in .* must be finite"),
        ({"features": np.ones((4, 5)), "costs": np.ones((3, 3))}, "4 features and 3 costs"),
        ({"features": np.array([["a"] * 5]), "costs": np.ones((1, 3))}, "features in .* must be numbers"),
        ({"features": np.ones((0, 5)), "costs": np.ones((0, 3))}, "features in .* must be numbers"),
    ],
)
def test_files_that_do_not_fit(arrays, message, tmp_path):
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_examples(tmp_path / "own.npz", (5,), (3,))


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_examples(tmp_path / "nothing.npz", (5,))

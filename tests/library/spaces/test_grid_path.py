"""GridPath: monotone paths against recursion over all paths, and paths with cycles against networkx."""

from itertools import pairwise

import networkx
import pytest
import torch
from cases import Toy, block_numba

import hardmax as hm
from hardmax.solvers.dijkstra import Arcs, find_shortest_paths
from hardmax.testing import assert_exact, assert_space, assert_unbiased

backends = pytest.mark.usefixtures("_backend")
MONOTONE = [
    hm.GridPath(height, width, connectivity=connectivity, on=on)
    for height, width in ((3, 3), (2, 4), (1, 4), (3, 1))
    for connectivity in (4, 8)
    for on in ("edges", "nodes")
]
WITH_CYCLES = [
    hm.GridPath(height, width, connectivity=connectivity, monotone=False, on=on)
    for height, width in ((3, 3), (2, 4), (1, 3))
    for connectivity in (4, 8)
    for on in ("edges", "nodes")
]
WARCRAFT = hm.GridPath(12, 12, connectivity=8, monotone=False, on="nodes")


def list_neighbours(space, cell):
    """Return the cells that a step leads to."""
    row, column = divmod(cell, space.width)
    offsets = [(0, 1), (1, 0)] if space.monotone else [(0, 1), (1, 0), (0, -1), (-1, 0)]
    if space.connectivity == 8:
        offsets += [(1, 1)] if space.monotone else [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    cells = [(row + down, column + right) for down, right in offsets]
    return [r * space.width + c for r, c in cells if 0 <= r < space.height and 0 <= c < space.width]


def list_paths(space, path=(0,)):
    """Return all paths without a repeated cell, as tuples of cells, by recursion."""
    if path[-1] == space.height * space.width - 1:
        return [path]
    return [
        longer
        for cell in list_neighbours(space, path[-1])
        if cell not in path
        for longer in list_paths(space, (*path, cell))
    ]


def encode(space, path):
    """Return the z of a path of cells."""
    z = torch.zeros(space.score_shape, dtype=torch.float64)
    if space.on == "nodes":
        z.view(-1)[list(path)] = 1
    else:
        for pair in pairwise(path):
            z[space.edges.index(pair if pair in space.edges else pair[::-1])] = 1
    return z


def list_members(space):
    return torch.stack([encode(space, path) for path in list_paths(space)])


def scores_of(space, *batch, size=1.0, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    scores = size * torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)
    return (scores if space.monotone else -scores.abs()).to(dtype)


# ------------------------------------------------------------------------------- both kinds
def test_the_edges_of_the_benchmark_of_elmachtoub_and_grigas():
    """As in its code: for each row, the edges to the right, then the edges down."""
    expected = []
    for i in range(5):
        expected += [(5 * i + j, 5 * i + j + 1) for j in range(4)]
        if i < 4:
            expected += [(5 * i + j, 5 * i + 5 + j) for j in range(5)]
    assert hm.GridPath(5, 5).edges == tuple(expected)
    assert hm.GridPath(5, 5, monotone=False).edges == tuple(expected)
    assert hm.GridPath(2, 3, connectivity=8).edges == (
        (0, 1), (1, 2), (0, 3), (1, 4), (2, 5), (0, 4), (1, 5), (3, 4), (4, 5),
    )  # fmt: skip
    more = set(hm.GridPath(2, 3, connectivity=8, monotone=False).edges) - set(hm.GridPath(2, 3, connectivity=8).edges)
    assert more == {(1, 3), (2, 4)}


@backends
@pytest.mark.parametrize("space", [*MONOTONE, *WITH_CYCLES], ids=str)
def test_argmax_against_recursion(space):
    """100 instances for each space and dtype, half of them with ties and zeros."""
    members, scores = list_members(space).flatten(1), scores_of(space, 2, 50)
    scores[1] = scores[1].round()
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        rounded = scores.to(dtype)
        z = space.argmax(rounded)
        assert z.dtype == dtype
        assert z.shape == scores.shape
        z, exact = z.double().flatten(2), rounded.double().flatten(2)
        assert (z[..., None, :] == members).all(-1).any(-1).all()
        torch.testing.assert_close((exact * z).sum(-1), (exact @ members.mT).amax(-1), atol=1e-5, rtol=0)


@backends
@pytest.mark.parametrize("on", ["edges", "nodes"])
@pytest.mark.parametrize("monotone", [True, False])
def test_a_mask_on_the_last_cell_or_a_wall_with_one_gap(on, monotone):
    space = hm.GridPath(4, 5, connectivity=8, monotone=monotone, on=on)
    scores = scores_of(space, 20)
    masked = scores.clone()
    if on == "nodes":
        masked[:, -1, -1] = masked[:, 0, 0] = -1e30  # constants
        assert torch.equal(space.argmax(masked), space.argmax(scores))
        masked = scores.index_fill(-1, torch.tensor(2), -1e30)
        masked[:, 1, 2] = -1.0
        z = space.argmax(masked)
        assert torch.equal(z[..., 2], torch.tensor([0.0, 1.0, 0.0, 0.0]).double().expand(20, 4))
    else:
        used = space.argmax(scores) > 0
        masked[~used] = -1e30
        assert torch.equal(space.argmax(masked), space.argmax(scores))


@pytest.mark.parametrize("space", [hm.GridPath(3, 4, on="nodes"), WARCRAFT, hm.GridPath(3, 3, monotone=False)], ids=str)
@pytest.mark.parametrize("batch", [(), (0,), (2, 0), (2, 3)], ids=str)
def test_batches(space, batch):
    scores = scores_of(space, *batch)
    z = space.argmax(scores)
    assert z.shape == scores.shape
    if batch == (2, 3):
        assert torch.equal(z[1, 2], space.argmax(scores[1, 2]))
    assert not space.argmax(scores.requires_grad_()).requires_grad


# ------------------------------------------------------------------------------- monotone
@backends
@pytest.mark.parametrize("space", MONOTONE, ids=str)
def test_everything_offered_agrees_with_enumeration(space):
    assert_space(space)
    members = space.enumerate(dtype=torch.float64).flatten(1)
    assert torch.equal(members.unique(dim=0), list_members(space).flatten(1).unique(dim=0))


def test_the_numbers_of_paths():
    assert hm.GridPath(5, 5).size == 70  # binomial
    assert hm.GridPath(5, 5, connectivity=8).size == 321  # Delannoy
    assert hm.GridPath(30, 30).size == 30067266499541040
    assert hm.GridPath(5, 5, on="nodes").draw_shape == (7, 1)


def test_scores_of_cells_are_scores_of_the_edges_into_them():
    cells, edges = hm.GridPath(4, 3, connectivity=8, on="nodes"), hm.GridPath(4, 3, connectivity=8)
    scores, prior = scores_of(cells, 2, 6)
    heads = [head for _, head in cells.edges]
    of_edges, prior_of_edges = (s.flatten(1)[:, heads] for s in (scores, prior))
    torch.testing.assert_close(cells.entropy(scores), edges.entropy(of_edges))
    torch.testing.assert_close(cells.kl(scores, prior), edges.kl(of_edges, prior_of_edges))
    torch.testing.assert_close(cells.log_partition(scores), edges.log_partition(of_edges) + scores[:, 0, 0])
    into = torch.zeros(6, 12, dtype=torch.float64).index_add(1, torch.tensor(heads), edges.marginals(of_edges))
    into[:, 0] = 1
    torch.testing.assert_close(cells.marginals(scores).flatten(1), into)


def test_derivatives_of_cells():
    space = hm.GridPath(3, 3, connectivity=8, on="nodes")
    scores = scores_of(space, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(space.log_partition(scores).sum(), scores)
    torch.testing.assert_close(gradient, space.marginals(scores).detach())
    assert torch.autograd.gradcheck(space.marginals, scores)
    assert torch.autograd.gradgradcheck(space.entropy, scores[0])


@pytest.mark.parametrize("on", ["edges", "nodes"])
def test_unbiased_estimators(on):
    space = hm.GridPath(3, 2, connectivity=8, on=on)
    assert_exact(hm.Exact(), space)
    assert_unbiased(hm.GibbsCovariance(), space, samples=3, resolution=0.3)
    assert_unbiased(hm.Reinforce("leave-one-out"), space, samples=3, resolution=0.3)


# ------------------------------------------------------------------------------- with cycles
def build_digraph(space):
    return networkx.DiGraph(
        (cell, other) for cell in range(space.height * space.width) for other in list_neighbours(space, cell)
    )


@backends
@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("on", ["edges", "nodes"])
def test_dijkstra_against_networkx(connectivity, on):
    """Larger grids, where detours pay: costs of a heavy tail."""
    space = hm.GridPath(7, 8, connectivity=connectivity, monotone=False, on=on)
    scores = -scores_of(space, 40, seed=1).mul(-3).exp()
    z, graph, detours = space.argmax(scores), build_digraph(space), 0
    for example, path in zip(scores, z, strict=True):
        costs = -example.flatten()
        for tail, head in graph.edges:
            pair = (tail, head) if (tail, head) in space.edges else (head, tail)
            graph[tail][head]["weight"] = costs[head if on == "nodes" else space.edges.index(pair)].item()
        expected = networkx.dijkstra_path(graph, 0, 55)
        assert torch.equal(path, encode(space, expected))
        detours += any(cell > other for cell, other in pairwise(expected))
    assert detours > 5


def test_ties_are_broken_in_the_same_way_with_and_without_numba(monkeypatch):
    spaces = [*WITH_CYCLES, WARCRAFT]
    scores = [scores_of(space, 50, size=1.5).round() for space in spaces]
    compiled = [space.argmax(example) for space, example in zip(spaces, scores, strict=True)]
    block_numba(monkeypatch)
    for space, example, z in zip(spaces, scores, compiled, strict=True):
        assert torch.equal(space.argmax(example), z)


@backends
def test_the_fewest_steps_of_equal_paths():
    z = WARCRAFT.argmax(torch.zeros(2, 12, 12))
    assert torch.equal(z, torch.eye(12).expand(2, 12, 12))
    z = hm.GridPath(5, 5, monotone=False).argmax(torch.zeros(40))
    assert z.sum() == 8


def test_only_the_arg_max_is_offered():
    space = WITH_CYCLES[0]
    for name in ("draw", "log_prob", "entropy", "kl", "marginals", "relax", "enumerate", "change"):
        assert not space.offers(name)
        assert MONOTONE[0].offers(name) == (name != "change")
    assert space.offers("noise_slope")
    scores = scores_of(space)
    calls = [space.marginals, space.entropy, space.kl, space.log_partition, lambda s: space.log_prob(s, s)]
    calls += [
        lambda s: space.draw(s, s),
        lambda s: space.relax(s, 1.0),
        lambda s: space.enumerate(),
        lambda s: space.size,
    ]
    for call in calls:
        with pytest.raises(hm.NotExactError, match=r"GridPath\(3, 3, .* offers no exact .* cycles; use monotone=True"):
            call(scores)
    for estimator in (hm.Exact(), hm.Reinforce(), hm.GumbelSoftmax(), hm.GibbsCovariance(), hm.Direct(full=True)):
        with pytest.raises(hm.NotExactError):
            hm.expectation(pytest.fail, scores, space, estimator, samples=2)


@pytest.mark.parametrize("space", [hm.GridPath(3, 3, monotone=False), hm.GridPath(3, 3, monotone=False, on="nodes")])
def test_scores_above_zero(space):
    scores = scores_of(space, 2, 3)
    scores[(1, 2, *(1 for _ in space.score_shape))] = 0.25
    place = r"edge \(1, 2\)" if space.on == "edges" else r"cell \(1, 1\)"
    with pytest.raises(hm.ArgumentError, match=rf"0.25 for {place} of example \[1, 2\]; pass -costs.*-softplus"):
        space.argmax(scores)
    with pytest.raises(hm.ArgumentError, match="at most zero"):
        hm.sample(scores, space, hm.ImplicitMLE())
    scores[scores > 0] = torch.nan
    with pytest.raises(hm.ArgumentError, match="got nan"):
        space.argmax(scores)


@backends
def test_the_solver_checks_scores_too():
    arcs = Arcs.from_triples(2, [(0, 1, 0), (1, 0, 0)])
    for bad in (1.0, -torch.inf, torch.nan):
        with pytest.raises(hm.ArgumentError, match="at index 0 of example 1; pass them through -softplus"):
            find_shortest_paths(torch.tensor([[-1.0], [bad]]), arcs, 0, 1)


def test_moved_scores_are_at_most_zero():
    space = hm.GridPath(2, 2, monotone=False)
    assert space.augment(torch.tensor([-1.0, -2.0]), torch.tensor([3.0, 1.0])).tolist() == [0.0, -1.0]
    assert hm.GridPath(2, 2).augment(torch.tensor([-1.0]), torch.tensor([3.0])).tolist() == [2.0]


@pytest.mark.parametrize("on", ["edges", "nodes"])
@pytest.mark.parametrize(
    "estimator", [hm.ImplicitMLE(5.0), hm.Blackbox(5.0), hm.PerturbedOptimizer(), hm.IdentityBackward()]
)
def test_estimators_learn_costs_through_dijkstra(estimator, on):
    """A network would give raw scores; -softplus makes costs of them."""
    space = hm.GridPath(4, 4, connectivity=8, monotone=False, on=on)
    target = space.argmax(scores_of(space, seed=3, dtype=torch.float32))
    raw, generator = torch.zeros(space.score_shape, requires_grad=True), torch.Generator().manual_seed(0)
    optimizer, losses = torch.optim.Adam([raw], lr=0.2), []
    for _ in range(60):
        scores = -torch.nn.functional.softplus(raw)
        z = hm.sample(scores, space, estimator, samples=16, generator=generator)
        optimizer.zero_grad()
        loss = (z - target).abs().flatten(1).sum(-1).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.6 * sum(losses[:3]) * 10 / 3, losses


def test_perturbed_optimizer_with_multiplicative_noise_has_the_gradient_of_the_mean_path():
    """Two cells to choose from: the first is cheaper with probability Phi(log(cost_2 / cost_1) / (scale sqrt 2))."""
    scale = 0.6
    noise = hm.Perturbation("multiplicative", scale)
    space = hm.GridPath(2, 2, monotone=False, on="nodes", perturbation=noise)
    scores = -torch.tensor([[1.0, 1.2], [1.5, 0.7]], dtype=torch.float64)
    leaf = scores.clone().requires_grad_()
    (exact,) = torch.autograd.grad(torch.special.ndtr((leaf[1, 0] / leaf[0, 1]).log() / (scale * 2**0.5)), leaf)
    draws = space.noise((400_000,), torch.Generator().manual_seed(0), dtype=torch.float64)
    out = hm.expectation(lambda z: z[..., 0, 1], leaf, space, hm.PerturbedOptimizer(), noise=draws)
    (estimate,) = torch.autograd.grad(out.value, leaf)
    torch.testing.assert_close(estimate, exact, atol=0.01, rtol=0)
    loss = hm.fenchel_young_loss(leaf, space.argmax(scores), space, samples=5)
    assert loss >= 0


# ------------------------------------------------------------------------------- construction
def test_equality_and_defaults():
    assert hm.GridPath(3, 3) == hm.GridPath(3, 3, perturbation=hm.Perturbation("gumbel"))
    assert hash(hm.GridPath(3, 3)) == hash(hm.GridPath(3, 3)) != hash(hm.GridPath(3, 3, on="nodes"))
    assert WARCRAFT.perturbation == hm.Perturbation("multiplicative")
    assert str(WARCRAFT) == "GridPath(12, 12, connectivity=8, monotone=False, on='nodes')"
    assert hm.GridPath(3, 3).has_constant_sum
    assert not hm.GridPath(3, 3, connectivity=8).has_constant_sum
    assert not WARCRAFT.has_constant_sum
    f = Toy(hm.GridPath(3, 3))
    assert hm.expectation(f, torch.zeros(12).double(), hm.GridPath(3, 3)).value.isfinite()


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((1, 1), {}, "at least two cells, got 1 x 1"),
        ((0, 5), {}, "at least two cells, got 0 x 5"),
        ((3, 3), {"monotone": False, "perturbation": hm.Perturbation("normal")}, "normal noise is added"),
        ((3, 3), {"monotone": False, "perturbation": hm.Perturbation()}, "gumbel noise is added"),
    ],
)
def test_bad_arguments(sizes, options, message):
    with pytest.raises(hm.ArgumentError, match=message):
        hm.GridPath(*sizes, **options)


def test_wrong_shapes():
    for space in (hm.GridPath(3, 3, on="nodes"), WITH_CYCLES[1]):
        with pytest.raises(hm.ShapeError, match=r"needs \[\*B, 3, 3\]"):
            space.argmax(torch.zeros(2, 3, 4))

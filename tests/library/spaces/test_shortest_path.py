"""ShortestPath: the arg max, sums and samples of paths in random acyclic graphs, against recursion over all paths."""

import math
import pickle
import random
from dataclasses import replace

import pytest
import torch
from cases import PATH, Toy, block_numba
from scipy.stats import chisquare

import hardmax as hm
from hardmax.testing import assert_exact, assert_space, assert_unbiased

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]
backends = pytest.mark.usefixtures("_backend")


def list_paths(edges, source, target):
    """Return all paths as lists of edges, by recursion."""
    if source == target:
        return [[]]
    return [
        [edge, *rest]
        for edge, (tail, head) in enumerate(edges)
        if tail == source
        for rest in list_paths(edges, head, target)
    ]


def list_members(space):
    paths = list_paths(space.edges, space.source, space.target)
    members = torch.zeros(len(paths), len(space.edges), dtype=torch.float64)
    for row, path in zip(members, paths, strict=True):
        row[path] = 1
    return members


def draw_graph(seed):
    """Return a random acyclic graph with nodes and edges in random order, some of them on no path."""
    draw = random.Random(seed)
    nodes = draw.sample(range(20), draw.randint(2, 8))
    density = draw.choice([0.3, 0.6, 1.0])
    edges = [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1 :] if draw.random() < density]
    draw.shuffle(edges)
    ends = draw.choice([sorted(draw.sample(range(len(nodes)), 2)), [0, -1]])
    return edges, nodes[ends[0]], nodes[ends[1]]


def draw_spaces(count):
    spaces = []
    for seed in range(10 * count):
        edges, source, target = draw_graph(seed)
        if edges and list_paths(edges, source, target):
            spaces.append(hm.ShortestPath(edges, source, target))
    return spaces[:count]


def scores_of(space, *batch, size=1.0, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return (size * torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)).to(dtype)


SPACES = draw_spaces(120)


def test_the_random_graphs_are_of_all_kinds():
    assert len(SPACES) == 120
    assert max(space.size for space in SPACES) >= 50
    assert sum(space.size == 1 for space in SPACES) >= 5
    assert sum(not space._graph.is_used.all() for space in SPACES) >= 20
    assert sum(space._graph.has_bridges for space in SPACES) >= 20


def test_members():
    for space in SPACES:
        members, expected = space.enumerate(dtype=torch.float64), list_members(space)
        assert space.size == len(expected)
        assert torch.equal(members.unique(dim=0), expected.unique(dim=0))
        assert len(members) == len(members.unique(dim=0))
        lengths = expected.sum(-1).unique()
        assert space.has_constant_sum == (len(lengths) == 1)
        assert space.draw_shape[0] <= lengths.max()


@backends
def test_argmax_against_recursion():
    """6,000 instances, a third of them with ties and a third with masks."""
    for seed, space in enumerate(SPACES):
        scores, members = scores_of(space, 3, 10, seed=seed), list_members(space)
        scores[1] = scores[1].round()
        scores[2, torch.rand(scores[2].shape, generator=torch.Generator().manual_seed(seed)) < 0.2] = -1e6
        for dtype in (torch.float64, torch.float32):
            rounded = scores.to(dtype)
            z = space.argmax(rounded)
            assert z.dtype == dtype
            assert (z[..., None, :] == members).all(-1).any(-1).all()
            best = (rounded.double() @ members.mT).amax(-1)
            tolerance = 1e-9 if dtype == torch.float64 else 5.0  # next to masks
            torch.testing.assert_close((rounded.double() * z).sum(-1)[:2], best[:2], atol=1e-5, rtol=0)
            torch.testing.assert_close((rounded.double() * z).sum(-1), best, atol=tolerance, rtol=0)


def test_ties_are_broken_in_the_same_way_with_and_without_numba(monkeypatch):
    scores = [scores_of(space, 30, seed=seed).round() for seed, space in enumerate(SPACES)]
    compiled = [space.argmax(example) for space, example in zip(SPACES, scores, strict=True)]
    half = [space.argmax(example.bfloat16()) for space, example in zip(SPACES, scores, strict=True)]
    block_numba(monkeypatch)
    for space, example, z, rounded in zip(SPACES, scores, compiled, half, strict=True):
        assert torch.equal(space.argmax(example), z)
        assert torch.equal(rounded.double(), z)


def test_the_first_of_equal_edges_is_taken():
    assert hm.ShortestPath(DIAMOND).argmax(torch.zeros(4)).tolist() == [1, 0, 1, 0]
    assert hm.ShortestPath(DIAMOND[::-1]).argmax(torch.zeros(4)).tolist() == [1, 0, 1, 0]


@backends
def test_sums_against_recursion():
    for seed, space in enumerate(SPACES):
        scores, prior = scores_of(space, 2, 4, size=3.0, seed=seed)
        members = list_members(space)
        log_q, log_p = (s @ members.mT for s in (scores, prior))
        log_z, log_q, log_p = log_q.logsumexp(-1), log_q.log_softmax(-1), log_p.log_softmax(-1)
        q = log_q.exp()
        torch.testing.assert_close(space.log_partition(scores), log_z)
        torch.testing.assert_close(space.marginals(scores), q @ members)
        torch.testing.assert_close(space.entropy(scores), -(q * log_q).sum(-1))
        torch.testing.assert_close(space.kl(scores, prior), (q * (log_q - log_p)).sum(-1), atol=1e-10, rtol=1e-7)
        torch.testing.assert_close(space.log_prob(scores, members[:, None].expand(-1, 4, -1)).mT, log_q)
        torch.testing.assert_close(space.relax(scores, 0.5), space.marginals(2 * scores))


@backends
@pytest.mark.parametrize("space", [max(SPACES, key=lambda space: space.size), PATH], ids=str)
def test_everything_offered_agrees_with_enumeration(space):
    assert_space(space)
    assert_space(hm.ShortestPath([(0, 1)]))


def test_derivatives():
    for space in (PATH, max(SPACES[:40], key=lambda space: space.size)):
        scores = scores_of(space, 2, size=2.0).requires_grad_()
        (gradient,) = torch.autograd.grad(space.log_partition(scores).sum(), scores)
        torch.testing.assert_close(gradient, space.marginals(scores).detach())
        assert torch.autograd.gradcheck(space.marginals, scores)
        assert torch.autograd.gradcheck(space.entropy, scores)
    scores = scores_of(PATH).requires_grad_()
    assert torch.autograd.gradgradcheck(PATH.marginals, scores)


# ------------------------------------------------------------------------------- extremes
@backends
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_scores_of_any_size(dtype):
    for space in (PATH, max(SPACES, key=lambda space: space.size)):
        members = list_members(space)
        for size in (1.0, 100.0, 1e4):
            scores = scores_of(space, 20, size=size, dtype=dtype)
            log_q = (scores.double() @ members.mT).log_softmax(-1)
            tolerance = {"atol": 20 * size * torch.finfo(dtype).eps, "rtol": 0}
            torch.testing.assert_close(space.marginals(scores).double(), log_q.exp() @ members, **tolerance)
            entropy = -(log_q.exp() * log_q).sum(-1)
            torch.testing.assert_close(space.entropy(scores).double(), entropy, **tolerance)


@backends
def test_a_mask_on_an_edge_of_all_paths_does_not_hide_the_other_scores():
    """The rest of the graph is as if the edge had another score."""
    space = hm.ShortestPath([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (4, 6), (5, 7), (6, 7)])
    scores = scores_of(space, 5)
    masked = scores.clone()
    masked[:, 4] = -1e30
    assert torch.equal(space.argmax(masked), space.argmax(scores))
    for quantity in (space.marginals, space.entropy, space.kl):
        torch.testing.assert_close(quantity(masked), quantity(scores))
    noise = space.draw_noise((10, 5), torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(space.draw(masked, noise), space.draw(scores, noise))
    torch.testing.assert_close(space.log_partition(masked), torch.full((5,), -1e30, dtype=torch.float64))


@backends
def test_more_paths_than_floats():
    """Each of 1,100 stages doubles the number of paths; the edge (0, 1) of each costs two more."""
    edges = [(3 * k + a, 3 * k + b) for k in range(1100) for a, b in ((0, 1), (0, 2), (1, 3), (2, 3))]
    space = hm.ShortestPath(edges)
    assert space.size == 2**1100
    scores = torch.tensor([-2.0, 0.0, 0.0, 0.0], dtype=torch.float64).repeat(1, 1100)
    p = 1 / (1 + math.exp(-2))
    expected = torch.tensor([1 - p, p, 1 - p, p], dtype=torch.float64).repeat(1, 1100)
    torch.testing.assert_close(space.marginals(scores), expected)
    torch.testing.assert_close(space.log_partition(scores)[0].item(), -1100 * math.log(p))
    z = space.sample(scores, 20, generator=torch.Generator().manual_seed(0))
    assert abs(z[:, 0, 1::4].mean() - p) < 0.02
    assert abs(space.kl(scores).item() + space.entropy(scores).item() - 1100 * math.log(2)) < 1e-6


def test_nodes_of_very_different_degrees():
    edges = [(0, k) for k in range(1, 40)] + [(k, 40) for k in range(1, 40)] + [(1, 2), (0, 40)]
    space = hm.ShortestPath(edges)
    assert (space.size, space.draw_shape) == (41, (2,))
    assert_space(space)


# ------------------------------------------------------------------------------- samples and noise
@backends
@pytest.mark.parametrize("kind", ["gumbel", "normal", "multiplicative"])
def test_noise_of_every_kind_gives_samples_of_q(kind):
    space = replace(PATH, perturbation=hm.Perturbation(kind, 0.7))
    assert space != PATH
    scores, generator = scores_of(space, seed=3), torch.Generator().manual_seed(0)
    z = space.draw(scores, space.noise((20_000,), generator, dtype=torch.float64))
    members = list_members(space)
    counts = (z[:, None] == members).all(-1).double().sum(0)
    assert chisquare(counts, 20_000 * (members @ scores).softmax(-1)).pvalue > 1e-6
    perturbed = space.perturb(scores, space.noise((5,), generator, dtype=torch.float64))
    assert (perturbed.sign() == scores.sign()).all() == (kind == "multiplicative")


def test_perturbed_optimizer_with_normal_noise_has_the_gradient_of_the_mean_path():
    """Two paths, of two edges and of one: the first is better with probability Phi(difference / (scale sqrt 3))."""
    scale = 0.8
    space = hm.ShortestPath([(0, 1), (1, 2), (0, 2)], perturbation=hm.Perturbation("normal", scale))
    scores = torch.tensor([0.3, -0.2, 0.4], dtype=torch.float64, requires_grad=True)
    difference = scores[0] + scores[1] - scores[2]
    (exact,) = torch.autograd.grad(torch.special.ndtr(difference / (scale * 3**0.5)), scores)
    noise = space.noise((400_000,), torch.Generator().manual_seed(0), dtype=torch.float64)
    out = hm.expectation(lambda z: z[..., 0], scores, space, hm.PerturbedOptimizer(), noise=noise)
    (estimate,) = torch.autograd.grad(out.value, scores)
    torch.testing.assert_close(estimate, exact, atol=0.006, rtol=0)


# ------------------------------------------------------------------------------- estimators
def test_unbiased_estimators():
    space = next(space for space in SPACES if 5 <= space.size <= 12)
    assert_exact(hm.Exact(), space)
    assert_unbiased(hm.GibbsCovariance(), space, samples=3, resolution=0.3)
    assert_unbiased(hm.Reinforce("leave-one-out"), space, samples=3, resolution=0.3)


@pytest.mark.parametrize(
    "estimator", [hm.PerturbedOptimizer(), hm.ImplicitMLE(), hm.Direct(full=True), "auto"], ids=str
)
def test_estimators_learn_the_path_with_the_largest_f(estimator):
    worth = Toy(PATH).weight.detach()
    scores = torch.zeros(PATH.score_shape, dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([scores], lr=0.3)
    for _ in range(40):
        out = hm.expectation(lambda z: z @ worth, scores, PATH, estimator, samples=8, generator=generator)
        optimizer.zero_grad()
        (-out.value).backward()
        optimizer.step()
    assert torch.equal(PATH.argmax(scores), PATH.argmax(worth))


def test_fenchel_young_loss():
    scores = scores_of(PATH, 5).requires_grad_()
    target = PATH.argmax(scores_of(PATH, 5, seed=1))
    noise = PATH.noise((50, 5), torch.Generator().manual_seed(0), dtype=torch.float64)
    loss = hm.fenchel_young_loss(scores, target, PATH, noise=noise)
    assert (loss >= 0).all()
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    torch.testing.assert_close(gradient, PATH.argmax(scores + noise).mean(0) - target)
    with pytest.raises(hm.ArgumentError, match="not a member of ShortestPath"):
        hm.fenchel_young_loss(scores.abs(), torch.ones_like(target), PATH, noise=noise)


def test_identity_backward_refuses_the_plane_where_lengths_differ():
    with pytest.raises(hm.NotExactError, match="sphere"):
        hm.sample(torch.zeros(8), PATH, hm.IdentityBackward("plane"))
    hm.sample(torch.zeros(4), hm.ShortestPath(DIAMOND), hm.IdentityBackward("plane"))


# ------------------------------------------------------------------------------- construction and errors
def test_edges_are_stored_as_pairs():
    space = hm.ShortestPath(torch.tensor(DIAMOND))
    assert space.edges == tuple(DIAMOND)
    assert (space.source, space.target) == (0, 3)
    assert space == hm.ShortestPath(DIAMOND, 0, 3) == pickle.loads(pickle.dumps(space))
    assert hash(space) == hash(hm.ShortestPath(DIAMOND))
    assert str(space) == "ShortestPath(4 edges, 0 -> 3)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "edges are empty"),
        (([(0, 1), (1, 2, 3)],), r"pairs \(from, to\).*row 1"),
        ((torch.tensor([[0, 1.5]]),), r"got \[0.0, 1.5\] in row 0"),
        (([(0, 1), (-1, 2)],), r"edge 1 is \(-1, 2\); number the nodes from zero"),
        (([(0, 1), (1, 1)],), "edge 1 joins node 1 to itself"),
        (([(0, 1), (1, 2), (0, 1)],), r"edges 0 and 2 are both \(0, 1\)"),
        (([(0, 1), (2, 3), (1, 2), (3, 1), (3, 4)],), "cycle (1 -> 2 -> 3 -> 1|2 -> 3 -> 1 -> 2|3 -> 1 -> 2 -> 3),"),
        (([(0, 2), (1, 2)],), r"source must be given: 2 nodes have no incoming edges \(0, 1\); pass source=0"),
        (([(0, 1), (0, 2)],), r"target must be given: 2 nodes have no outgoing edges"),
        (([(0, 1), (2, 3)], 0, 3), "no path from source 0 to target 3"),
        (([(0, 1), (1, 2)], 2, 0), "no path from source 2 to target 0"),
        (([(0, 1)], 1, 1), "no path from source 1 to target 1"),
        (([(0, 1)], 0, 7), "target is 7, but no edge has this node"),
    ],
)
def test_bad_graphs(arguments, message):
    with pytest.raises(hm.ArgumentError, match=message):
        hm.ShortestPath(*arguments)


def test_too_many_paths_to_enumerate_and_no_single_changes():
    edges = [(2 * k + a, 2 * k + b) for k in range(30) for a, b in ((0, 1), (0, 2), (1, 2))]
    with pytest.raises(hm.NotExactError, match=f"{2**30:,} members"):
        hm.ShortestPath(edges).enumerate()
    assert not any(PATH.offers(name) for name in ("changes", "change", "parts", "fields"))
    with pytest.raises(hm.ShapeError, match=r"needs \[\*B, 8\]"):
        PATH.argmax(torch.zeros(3, 7))

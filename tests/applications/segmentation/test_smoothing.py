"""Alpha-expansion: energies that never rise, the best labels of small grids, and the best moves."""

import pytest
import torch

from hardmax.applications.segmentation.fit import smoothing as module
from hardmax.applications.segmentation.fit.smoothing import (
    expand_label,
    find_grid_edges,
    find_open_voxels,
    potts_energy,
    reduce_problem,
    smooth_labels,
)
from hardmax.errors import ArgumentError


def grid(shape, labels, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(labels, *shape, generator=generator, dtype=torch.float64)


def flat(cost, mask=None, spacing=None):
    inside = torch.ones(cost.shape[1:], dtype=torch.bool) if mask is None else mask
    return cost[:, inside], *find_grid_edges(inside, spacing)


def energies(cost, all_labels, edges, weights):
    """Return the energy of each row of labels `[R, N]`, written out again."""
    own = cost[all_labels, torch.arange(cost.shape[1])].sum(1)
    return own + ((all_labels[:, edges[:, 0]] != all_labels[:, edges[:, 1]]) * weights).sum(1)


def find_least_energy(cost, edges, weights):
    """Return the least energy of all labellings."""
    members = torch.cartesian_prod(*[torch.arange(len(cost))] * cost.shape[1])
    return energies(cost, members, edges, weights).min().item()


def best_move(cost, labels, edges, weights, alpha):
    """Return the least energy of all labellings that keep a label or take alpha."""
    take = torch.cartesian_prod(*[torch.tensor([False, True])] * len(labels))
    return energies(cost, torch.where(take, alpha, labels), edges, weights).min().item()


def check_moves(move):
    """A move must be the best among all that keep a label or take alpha, and change nothing else."""
    for seed in range(40):
        shape, strength = [(2, 2, 2), (3, 3), (8,)][seed % 3], [0.2, 0.7, 2.0][seed % 3]
        table, edges, weights = flat(grid(shape, 3, seed))
        weights = (
            strength
            * weights
            * (0.5 + torch.rand(len(weights), generator=torch.Generator().manual_seed(seed)).double())
        )
        labels = torch.randint(3, (table.shape[1],), generator=torch.Generator().manual_seed(seed))
        for alpha in range(3):
            proposal = move(table, labels, edges, weights, alpha)
            assert ((proposal == labels) | (proposal == alpha)).all()
            assert potts_energy(table, proposal, edges, weights) == pytest.approx(
                best_move(table, labels, edges, weights, alpha)
            )


def test_every_move_is_the_best():
    check_moves(expand_label)


def greedy(cost, labels, edges, weights, alpha):
    """Voxels switch by their own costs only."""
    return torch.where(cost[alpha] < cost.gather(0, labels[None])[0], alpha, labels)


def half_the_weights(cost, labels, edges, weights, alpha):
    return expand_label(cost, labels, edges, weights / 2, alpha)


@pytest.mark.parametrize("wrong", [greedy, half_the_weights])
def test_wrong_moves_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_moves(wrong)


@pytest.mark.parametrize("labels", [2, 3])
def test_against_all_labellings(labels):
    """Two labels: exact. Three: a local minimum, at most twice the best here, and nearly always the best."""
    hits = 0
    for seed in range(30):
        cost = grid((2, 2, 2) if labels == 2 else (2, 4), labels, seed).abs()
        table, edges, weights = flat(cost)
        reached = potts_energy(table, smooth_labels(cost, 0.4).flatten(), edges, 0.4 * weights)
        best = find_least_energy(table, edges, 0.4 * weights)
        assert reached <= 2 * best + 1e-9
        hits += reached <= best + 1e-9
    assert hits == 30 if labels == 2 else hits >= 27


def check_open_voxels(find):
    """A fixed voxel has its label in every best labelling, and the open voxels only give the same energies."""
    for seed in range(40):
        table, edges, weights = flat(grid((2, 2, 2), 3, seed, scale=2.0))
        weights = 0.5 * weights
        labels, is_open = find(table, edges, weights)
        members = torch.cartesian_prod(*[torch.arange(3)] * 8)
        every = energies(table, members, edges, weights)
        best = members[every < every.min() + 1e-9]
        assert (best[:, ~is_open] == labels[~is_open]).all()
        reduced = reduce_problem(table, labels, is_open, edges, weights)
        agreeing = (members[:, ~is_open] == labels[~is_open]).all(1)
        gap = every[agreeing] - energies(reduced[0], members[agreeing][:, is_open], *reduced[1:])
        torch.testing.assert_close(gap, gap[:1].expand_as(gap))


def test_fixed_voxels_are_right():
    check_open_voxels(find_open_voxels)


def test_fixing_too_many_is_caught():
    with pytest.raises(AssertionError):
        check_open_voxels(lambda cost, edges, weights: find_open_voxels(cost, edges, weights / 6))


def test_energy_never_rises(monkeypatch):
    cost = grid((12, 10, 8), 5, 0)
    table, edges, weights = flat(cost)
    energies_of_moves = []

    def record(table, labels, edges, weights, alpha):
        out = expand_label(table, labels, edges, weights, alpha)
        energies_of_moves.append(
            [potts_energy(table, labels, edges, weights), potts_energy(table, out, edges, weights)]
        )
        return out

    monkeypatch.setattr(module, "expand_label", record)
    labels = smooth_labels(cost, 0.8)
    assert len(energies_of_moves) > 6
    assert (torch.tensor(energies_of_moves).flatten().diff() <= 1e-9).all()
    start, end = (potts_energy(table, s, edges, 0.8 * weights) for s in (table.argmin(0), labels.flatten()))
    assert end - start == pytest.approx(energies_of_moves[-1][1] - energies_of_moves[0][0])
    assert end < start


def test_a_move_that_rises_is_rejected(monkeypatch):
    """An inexact solver may return such a move."""
    monkeypatch.setattr(
        module, "expand_label", lambda cost, labels, edges, weights, alpha: torch.full_like(labels, alpha)
    )
    cost = grid((4, 4), 3, 0, scale=9.0)
    assert torch.equal(smooth_labels(cost, 0.1), cost.argmin(0))


def test_outside_the_mask_nothing_happens():
    cost = grid((6, 6, 6), 3, 1)
    mask = torch.rand(6, 6, 6, generator=torch.Generator().manual_seed(0)) < 0.6
    labels = smooth_labels(cost, 0.7, mask=mask)
    assert (labels[~mask] == 0).all()
    changed = torch.where(mask, cost, torch.randn(3, 6, 6, 6).double())
    assert torch.equal(smooth_labels(changed, 0.7, mask=mask), labels)


def test_edges_of_a_grid():
    edges, weights = find_grid_edges(torch.ones(3, 4, 5, dtype=torch.bool), (1.0, 1.0, 4.0))
    assert len(edges) == 2 * 4 * 5 + 3 * 3 * 5 + 3 * 4 * 4
    assert weights.tolist() == [1.0] * (40 + 45) + [0.25] * 48
    place = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(4), torch.arange(5), indexing="ij"), -1).view(
        -1, 3
    )
    assert ((place[edges[:, 0]] - place[edges[:, 1]]).abs().sum(1) == 1).all()


def test_strength():
    cost = grid((8, 8, 8), 3, 2)
    assert torch.equal(smooth_labels(cost, 0.0), cost.argmin(0))
    assert (smooth_labels(cost, 1e3) == cost.sum((1, 2, 3)).argmin()).all()
    noise = [int((smooth_labels(cost, b).diff(dim=0) != 0).sum()) for b in (0.0, 0.3, 1.0)]
    assert noise == sorted(noise, reverse=True)
    assert noise[0] > 2 * noise[2]


def test_noise_on_blocks_is_removed():
    truth = (torch.arange(20) >= 10).long()[:, None, None].expand(20, 20, 20)
    generator = torch.Generator().manual_seed(0)
    x = truth + 0.8 * torch.randn(20, 20, 20, generator=generator)
    cost = torch.stack([x.square(), (x - 1).square()]) / (2 * 0.8**2)
    before, after = ((labels != truth).float().mean() for labels in (cost.argmin(0), smooth_labels(cost, 0.7)))
    assert before > 0.2
    assert after < 0.02


def test_start_is_kept_where_it_is_best():
    cost = grid((5, 5), 3, 3)
    done = smooth_labels(cost, 0.5)
    assert torch.equal(smooth_labels(cost, 0.5, start=done), done)


def test_bad_input():
    cost = grid((4, 4), 2, 0)
    with pytest.raises(ArgumentError, match="negative"):
        smooth_labels(cost, -1.0)
    with pytest.raises(ArgumentError, match="finite"):
        smooth_labels(torch.full((2, 3), torch.inf), 1.0)
    with pytest.raises(ArgumentError, match="2 positive numbers"):
        smooth_labels(cost, 1.0, spacing=(1.0, 1.0, 1.0))

"""The codebook: the best code is the nearest, codes are spread over the vectors, and unused ones are moved."""

import pytest
import torch

from hardmax.nn import Codebook


def make_clusters(count=4, each=50, apart=20.0):
    """Return points around `count` centres that are far from each other, and the centres."""
    generator = torch.Generator().manual_seed(0)
    centres = apart * torch.eye(count, 8)
    return (centres[:, None] + 0.1 * torch.randn(count, each, 8, generator=generator)).flatten(0, 1), centres


def test_scores_are_distances():
    torch.manual_seed(0)
    book, e = Codebook(7, 3), torch.randn(5, 4, 3)
    with torch.no_grad():
        book.log_scale.fill_(0.3)
        distance = torch.cdist(e.flatten(0, 1), book.vectors).square().view(5, 4, 7)
        difference = book.scores(e) + book.log_scale.exp() * distance
    torch.testing.assert_close(difference, difference[..., :1].expand_as(difference))  # the same for all codes
    assert torch.equal(book.scores(e).argmax(-1), distance.argmin(-1))


def test_one_hot_rows_look_codes_up_and_others_mix_them():
    book = Codebook(3, 2)
    z = torch.tensor([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]])
    vectors = book.look_up(z)
    torch.testing.assert_close(vectors[0, 0], book.vectors[1])
    torch.testing.assert_close(vectors[0, 1], (book.vectors[0] + book.vectors[2]) / 2)


def test_codes_are_placed_on_every_cluster():
    points, centres = make_clusters()
    book = Codebook(4, 8)
    book.initialize(points[None], torch.Generator().manual_seed(0))
    nearest = torch.cdist(centres, book.vectors.detach())
    assert nearest.amin(1).max() < 1
    assert sorted(nearest.argmin(1).tolist()) == [0, 1, 2, 3]
    spread = book.scores(points).detach()
    assert 1 < (spread.amax(-1) - spread.mean(-1)).mean() < 10  # neither uniform nor deterministic


def test_unused_codes_are_moved_to_where_codes_are_missed():
    points, centres = make_clusters()
    book = Codebook(4, 8)
    with torch.no_grad():
        book.vectors.copy_(centres)
        book.vectors[2] = 100.0  # far from all points
    before = book.vectors.detach().clone()
    book.used.copy_(torch.tensor([50.0, 50.0, 0.0, 50.0]))
    moved = book.revive(points, 0.05, torch.Generator().manual_seed(0))
    assert moved.tolist() == [False, False, True, False]
    assert torch.equal(book.vectors[~moved], before[~moved])
    assert (book.vectors[2] - centres[2]).norm() < 1
    assert not book.used.any()


def test_no_code_is_moved_where_all_are_used():
    points, _ = make_clusters()
    book = Codebook(4, 8)
    before = book.vectors.detach().clone()
    book.used.fill_(10.0)
    assert not book.revive(points, 0.05).any()
    assert torch.equal(book.vectors, before)


def test_all_points_equal():
    """As in the black corners of images: codes are still placed, and differ from each other."""
    book = Codebook(5, 3)
    book.initialize(torch.ones(20, 3), torch.Generator().manual_seed(0))
    assert book.vectors.isfinite().all()
    assert len(book.vectors.detach().unique(dim=0)) == 5
    assert book.log_scale.isfinite()


def test_forward_returns_the_nearest_codes():
    torch.manual_seed(0)
    for learning in ("gradient", "average", "linear"):
        book, e = Codebook(40, 3, learning=learning).double(), torch.randn(6, 7, 3, dtype=torch.float64)
        codes, indices = book(e)
        every = book.compute_codes()
        assert torch.equal(indices, torch.cdist(e.flatten(0, 1), every).argmin(-1).view(6, 7))
        assert torch.equal(codes, every[indices])
        assert codes.requires_grad == (learning != "average")


def test_running_means_are_the_ratio_of_two():
    """Sums and counts are averaged separately here, as van den Oord et al. do; a code without vectors stays."""
    torch.manual_seed(0)
    decay, book = 0.9, Codebook(5, 2, learning="average", decay=0.9).double()
    book.vectors[4] = 1e3
    book.mass.copy_(torch.rand(5) + 0.5)
    mass, sums = book.mass.clone(), book.mass[:, None] * book.vectors
    for _ in range(7):
        e = torch.randn(30, 2, dtype=torch.float64)
        _, indices = book(e)
        mass *= decay
        sums *= decay
        for vector, k in zip(e, indices, strict=True):
            mass[k] += 1 - decay
            sums[k] += (1 - decay) * vector
        book.average(book.add_up(e, indices), indices.bincount(minlength=5).double())
        torch.testing.assert_close(book.vectors, sums / mass[:, None])
        torch.testing.assert_close(book.mass, mass)
    assert (book.vectors[4] == 1e3).all()
    assert (book.vectors[:4] - (sums / mass[:, None])[:4] * 1.01).abs().max() > 1e-3  # the test detects an error of 1 %


def test_a_linear_codebook_starts_with_the_moments_of_the_vectors():
    torch.manual_seed(0)
    book, mixing = Codebook(4000, 3, learning="linear").double(), torch.randn(3, 3, dtype=torch.float64)
    points = torch.randn(5000, 3, dtype=torch.float64) @ mixing + 7.0
    book.initialize(points)
    codes = book.compute_codes().detach()
    torch.testing.assert_close(codes.mean(0), points.mean(0), rtol=0, atol=0.2)
    torch.testing.assert_close(codes.T.cov(), points.T.cov(), rtol=0.1, atol=0.2)
    before = book.vectors.clone()
    book.used[0] = 100
    assert not book.revive(points, 0.5).any()
    assert torch.equal(book.vectors, before)
    assert not any(name == "vectors" for name, _ in book.named_parameters())


def test_former_name():
    with pytest.deprecated_call(match="use hardmax.nn.codebook.Codebook"):
        from hardmax.applications.tokens.networks import Codebook as former
    assert former is Codebook

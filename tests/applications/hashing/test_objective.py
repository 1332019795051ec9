"""Contrastive losses of vectors against hand computation; those of codes against replacing codes one by one."""

import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn.functional import cosine_similarity, cross_entropy, triplet_margin_loss

import hardmax as hm
from hardmax.applications.hashing import InfoNCECodes, TripletCodes, info_nce, triplet_loss

ROOT = math.sqrt(0.5)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TestTripletLoss:
    def test_by_hand(self):
        query = torch.tensor([3.0, 0.0])
        positive, negative = torch.tensor([1.0, 1.0]), torch.tensor([[0.0, 2.0], [1.0, -1.0], [5.0, 0.0]])
        losses = triplet_loss(query, positive, negative, margin=0.25)
        # <q, d+> = 0.7071; <q, d-> = 0, 0.7071, 1
        torch.testing.assert_close(losses, torch.tensor([0.0, 0.25, 1.25 - ROOT]))

    def test_is_half_the_difference_of_squared_distances_of_unit_vectors(self):
        three = [vectors / vectors.norm(dim=-1, keepdim=True) for vectors in (random(9, 4, seed=s) for s in range(3))]
        query, positive, negative = three
        squares = [(query - other).square().sum(-1) / 2 for other in (positive, negative)]
        expected = (0.3 + squares[0] - squares[1]).clamp_min(0)
        torch.testing.assert_close(triplet_loss(query, positive, negative, margin=0.3), expected)
        # torch's own loss uses distances that are not squared, and differs.
        assert not torch.allclose(triplet_margin_loss(*three, margin=0.3, reduction="none"), expected)

    def test_length_plays_no_part(self):
        query, positive, negative = (random(5, 3, seed=seed) for seed in range(3))
        before = triplet_loss(query, positive, negative)
        torch.testing.assert_close(triplet_loss(7 * query, 0.1 * positive, 3 * negative), before)

    def test_the_printed_form_is_a_score(self):
        """Descent on `q.d+ - q.d-`, as the notes print it, drives the positive away; on ours it does not."""
        positive, negative = torch.tensor([0.6, 0.8]), torch.tensor([0.8, -0.6])
        for loss, nearer in (
            (lambda q: triplet_loss(q, positive, negative, margin=1.0), True),
            (lambda q: cosine_similarity(q, positive, dim=0) - cosine_similarity(q, negative, dim=0), False),
        ):
            query = torch.tensor([1.0, 0.0], requires_grad=True)
            loss(query).backward()
            after = (query - 0.1 * query.grad).detach()
            assert bool(cosine_similarity(after, positive, dim=0) > cosine_similarity(query, positive, dim=0)) == nearer

    def test_gradients(self):
        three = [random(6, 3, seed=seed).requires_grad_() for seed in range(3)]
        assert gradcheck(lambda *v: triplet_loss(*v, margin=0.7), three)

    @pytest.mark.parametrize("margin", [0.0, -0.1, math.inf, math.nan])
    def test_margin(self, margin):
        with pytest.raises(hm.ArgumentError, match="margin must be a positive number"):
            triplet_loss(random(2), random(2), random(2), margin=margin)


class TestInfoNCE:
    def test_by_hand(self):
        query = torch.tensor([[2.0, 0.0]])
        positive, negatives = torch.tensor([[1.0, 1.0]]), torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
        loss = info_nce(query, positive, negatives, temperature=0.5)
        weight = math.exp(2 * ROOT)
        assert loss.item() == pytest.approx(-math.log(weight / (weight + 1 + math.exp(-2))))

    def test_without_negatives_the_other_positives_are(self):
        query, positive = random(5, 3), random(5, 3, seed=1)
        cosines = cosine_similarity(query[:, None], positive, dim=-1)
        expected = cross_entropy(cosines / 0.2, torch.arange(5), reduction="none")
        torch.testing.assert_close(info_nce(query, positive, temperature=0.2), expected)
        for i in range(5):
            others = positive[torch.arange(5) != i]
            loss = info_nce(query[i, None], positive[i, None], others, temperature=0.2)
            torch.testing.assert_close(loss, expected[i, None])

    def test_vectors_without_information(self):
        losses = info_nce(torch.ones(3, 4), torch.ones(3, 4), torch.ones(9, 4))
        torch.testing.assert_close(losses, torch.full((3,), math.log(10)))

    def test_a_low_temperature_does_not_overflow(self):
        query = torch.tensor([[1.0, 0.0]])
        assert info_nce(query, -query, query, temperature=1e-3).item() == pytest.approx(2000)
        assert info_nce(query, query, -query, temperature=1e-3).item() == 0

    def test_it_is_a_lower_bound_of_information(self):
        """Bits are flipped with probability 0.1: log(negatives + 1) minus the loss is at most the information."""
        generator = torch.Generator().manual_seed(0)
        bits = torch.randint(0, 2, (2000, 2), generator=generator).double() * 2 - 1
        noisy = bits * (1 - 2 * (torch.rand(2000, 2, generator=generator) < 0.1).double())
        information = 2 * (math.log(2) + 0.1 * math.log(0.1) + 0.9 * math.log(0.9))
        bounds = [math.log(2000) - info_nce(bits, noisy, temperature=t).mean().item() for t in (0.3, 0.46, 1.0)]
        # The best critic is log p(noisy | bits): <q, d> / t with 2 / t = 2 log(0.9 / 0.1), t = 0.455.
        assert max(bounds) == bounds[1]
        assert information - 0.05 < bounds[1] < information + 0.05
        assert all(bound < information + 0.05 for bound in bounds)

    def test_gradients(self):
        three = [random(*shape).requires_grad_() for shape in ((4, 3), (4, 3), (5, 3))]
        assert gradcheck(lambda *v: info_nce(*v, temperature=0.4), three)
        assert gradcheck(lambda *v: info_nce(*v, temperature=0.4), three[:2])


PARTNER = torch.tensor([3, 4, 5, 0, 1, 2])
# Images 0 and 1 are of one class: neither is a negative of the other.
NEGATIVE = ~torch.block_diag(torch.ones(2, 2), torch.ones(1, 1)).bool().repeat(2, 2)
KINDS = {"info-nce": InfoNCECodes, "triplet": TripletCodes}


def loss_of(kind, codes):
    """Return the loss of all codes, by the losses of vectors, query by query."""
    vectors, losses = 2 * codes - 1, []
    for i, vector in enumerate(vectors):
        query, positive, negatives = vector[None], vectors[PARTNER[i], None], vectors[NEGATIVE[i]]
        if kind == "info-nce":
            losses.append(info_nce(query, positive, negatives, temperature=0.2)[0])
        else:
            losses.append(triplet_loss(query, positive, negatives, margin=0.5).mean())
    return torch.stack(losses)


def codes_of(seed=0, n=5):
    return (random(6, n, seed=seed) > 0).double()


@pytest.mark.parametrize("kind", KINDS)
class TestCodes:
    def test_losses(self, kind):
        codes = codes_of()
        torch.testing.assert_close(KINDS[kind](codes, PARTNER, NEGATIVE).losses(), loss_of(kind, codes))

    def test_every_code_replaced(self, kind):
        codes, other = codes_of(), torch.stack([codes_of(seed) for seed in (1, 2, 3)])
        values = KINDS[kind](codes, PARTNER, NEGATIVE)(other)
        assert values.shape == (3, 6)
        for c in range(3):
            for i in range(6):
                replaced = codes.clone()
                replaced[i] = other[c, i]
                torch.testing.assert_close(values[c, i], -loss_of(kind, replaced).mean())

    def test_rows(self, kind):
        f, z = KINDS[kind](codes_of(), PARTNER, NEGATIVE), codes_of(7)
        index = torch.tensor([4, 1, 1])
        torch.testing.assert_close(f.rows(z[index], index), f(z[None])[0, index])

    def test_the_gradient_of_the_expectation(self, kind):
        """Local expectation of 4 codes of 2 bits: its mean is the gradient of -E[L], enumerated."""
        space, scores = hm.Binary(2), random(4, 2, seed=5)
        partner, negative = torch.tensor([2, 3, 0, 1]), ~torch.eye(2, dtype=torch.bool).repeat(2, 2)
        members = hm.Binary(8).enumerate(dtype=torch.float64).view(-1, 4, 2)
        losses = torch.stack([KINDS[kind](codes, partner, negative).losses().mean() for codes in members])
        leaf = scores.clone().requires_grad_()
        weights = space.log_prob(leaf, members).sum(-1).exp()
        exact = torch.autograd.grad(-(weights * losses).sum(), leaf)[0]
        # Planted error: the effect of a code on other queries is left out.
        gradients, wrong = [], []
        for noise in space.noise((200, 1, 4), torch.Generator().manual_seed(0), dtype=torch.float64):
            f = KINDS[kind](space.argmax(scores + noise[0]), partner, negative)
            leaf = scores.clone().requires_grad_()
            out = hm.expectation(f, leaf, space, hm.LocalExpectation(), noise=noise)
            torch.testing.assert_close(out.value, -f.losses().mean().expand(4))
            gradients.append(torch.autograd.grad(out.value.sum(), leaf)[0])
            leaf = scores.clone().requires_grad_()
            out = hm.expectation(lambda z, f=f: value_as_query(f, z), leaf, space, hm.LocalExpectation(), noise=noise)
            wrong.append(torch.autograd.grad(out.value.sum(), leaf)[0])
        assert largest_z(torch.stack(gradients), exact) < 5.5
        assert largest_z(torch.stack(wrong), exact) > 5.5

    def test_codes_without_negatives(self, kind):
        codes, partner = codes_of()[:2], torch.tensor([1, 0])
        f = KINDS[kind](codes, partner, torch.zeros(2, 2, dtype=torch.bool))
        z = codes_of(1)[None, :2].requires_grad_()
        values = f(z)
        torch.testing.assert_close(values.detach(), torch.zeros(1, 2, dtype=torch.float64), atol=1e-9, rtol=0)
        assert torch.autograd.grad(values.sum(), z)[0].isfinite().all()


def value_as_query(f, z):
    """Return the value of codes as queries only, `[C, M]`."""
    similarity = f._to_unit_vector(z) @ f._vectors.T
    right = similarity.gather(-1, f.partner.expand(z.shape[:2])[..., None])
    if isinstance(f, InfoNCECodes):
        compared = (similarity / f.temperature).masked_fill(~f._compared, -torch.inf)
        return (right.squeeze(-1) / f.temperature - compared.logsumexp(-1)) / z.shape[1]
    return -(f._weight * f._compute_shortfall(similarity, right)).sum(-1) / z.shape[1]


def largest_z(gradients, exact):
    """Return the largest |z| of the mean; it exceeds 5.5 by chance with a probability of 1e-6 (8 components)."""
    error = (gradients.std(0) / len(gradients) ** 0.5).clamp_min(1e-12)
    return ((gradients.mean(0) - exact) / error).abs().max().item()

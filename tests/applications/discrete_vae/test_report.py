"""Reports of runs whose z has structure: they show only valid values of z."""

import pytest
import torch

from hardmax.applications.discrete_vae.report import (
    describe_active,
    describe_chart,
    describe_measurement,
    describe_subject,
    describe_usage,
)
from hardmax.applications.discrete_vae.report_codes import (
    _compute_mean_images,
    compute_mean,
    draw_couplings,
    draw_usage,
    has_bits,
    is_unconstrained,
    measure_usage,
    tile_meanings,
)
from hardmax.applications.runs import read_run
from hardmax.spaces import Binary, Categorical, Chain, PairwiseBinary, Permutation, SpanningTree, Subset

SPACES = {
    Binary(3): (True, True),
    PairwiseBinary(3): (True, True),
    Subset(4, 2): (True, False),
    SpanningTree(3): (True, False),
    Categorical(3): (False, True),
    Categorical(3, 2): (False, True),
    Chain(3, 2): (False, True),
    Permutation(3): (False, False),
}
KINDS = ["pairwise", "supermodular", "many", "subset", "chain", "permutation", "tree"]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_kinds_of_spaces(space):
    assert (has_bits(space), is_unconstrained(space)) == SPACES[space]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_mean_of_z_agrees_with_enumeration(space):
    scores = torch.randn(2, *space.score_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    q = space.log_probs(scores).exp()
    expected = (q @ space.enumerate(dtype=q.dtype).flatten(1)).view(2, *space.event_shape)
    torch.testing.assert_close(compute_mean(space, scores), expected)


def test_too_many_bits_have_no_mean():
    space = PairwiseBinary(24)
    assert compute_mean(space, torch.zeros(space.score_shape)) is None
    assert is_unconstrained(space)


@pytest.mark.parametrize("kind", KINDS)
def test_usage(trained, kind):
    run = read_run(trained(kind))
    usage = measure_usage(run)
    assert usage.average.shape == run.model.space.event_shape
    assert usage.is_exact == (kind != "many")
    limit = 2 if has_bits(run.model.space) else run.model.space.event_shape[-1]
    assert ((usage.perplexity >= 1 - 1e-9) & (usage.perplexity <= limit + 1e-6)).all()
    assert 1 < usage.max_perplexity <= limit + 1e-6
    assert "aria-label" in draw_usage(usage, run.model.prior, "a")
    assert f"over {usage.record.variable}s" in describe_usage(run, usage)
    assert usage.record.variable in describe_chart(run, usage)
    assert describe_active(run) == (f"{usage.record.variable}s", run.model.space.event_shape[0])


def test_perplexity_if_all_codes_were_equally_frequent(trained):
    assert measure_usage(read_run(trained("subset"))).max_perplexity == pytest.approx((5 / 2) ** 0.4 * (5 / 3) ** 0.6)
    assert measure_usage(read_run(trained("many"))).max_perplexity == pytest.approx(2)
    assert measure_usage(read_run(trained("permutation"))).max_perplexity == pytest.approx(4)


@pytest.mark.parametrize(("kind", "words"), [
    ("pairwise", "5 bits that interact in pairs"),
    ("supermodular", "4 bits that interact in a chain, with non-negative couplings"),
    ("subset", "subsets of 2 out of 5 items"),
    ("chain", "chains of 4 places with 3 states"),
    ("permutation", "permutations of 4 items"),
    ("tree", "spanning trees of 4 nodes"),
])  # fmt: skip
def test_description_of_z(trained, kind, words):
    assert words in describe_subject(read_run(trained(kind)))


def test_description_of_the_measurement(trained):
    assert "exact" in describe_measurement(read_run(trained("pairwise")))
    text = describe_measurement(read_run(trained("many")))
    assert "perturb-and-MAP" in text
    assert "upper bounds" in text


@pytest.mark.parametrize("kind", KINDS)
def test_flips_only_where_bits_may_be_flipped(trained, kind):
    run = read_run(trained(kind))
    headings = [heading for heading, _ in tile_meanings(run, measure_usage(run)).rows]
    assert any("flipped" in heading for heading in headings) == (kind in ("pairwise", "supermodular", "many"))


@pytest.mark.parametrize("kind", ["subset", "tree", "permutation"])
def test_means_are_of_codes_that_exist(trained, kind):
    run = read_run(trained(kind))
    codes = run.model.space.enumerate()
    value = torch.tensor(1.0) if has_bits(run.model.space) else torch.eye(4)[1]
    means = _compute_mean_images(run.model, codes, [2], value)
    has_value = (codes[:, 2] == value).view(len(codes), -1).all(1)
    torch.testing.assert_close(means[0], run.model.decode(codes[has_value]).mean(0))
    # without any such code, the mean of all codes: no difference is visible
    without = _compute_mean_images(run.model, codes[~has_value], [2], value)
    torch.testing.assert_close(without[0], run.model.decode(codes[~has_value]).mean(0))


def test_names(trained, page):
    assert measure_usage(read_run(trained("tree"))).names == ["0–1", "0–2", "0–3", "1–2", "1–3", "2–3"]
    assert "edge 1–3: the mean image" in page("tree")
    assert "Place 3: perplexity" in page("chain")
    assert "with item 2 at place 1" in page("permutation")
    assert "How often each item has each place" in page("permutation")


def test_couplings(trained, page):
    run = read_run(trained("pairwise"))
    usage = measure_usage(run)
    with torch.no_grad():
        means = run.model.encoder(run.test_examples)[:, 5:].mean(0)
    strongest = int(means.abs().argmax())
    i, j = run.model.space.edges[strongest]
    note = draw_couplings(usage, "a").note
    assert f"bits {i} and {j}, {means[strongest]:+.2f}".replace("-", "−") in note
    assert "How the bits interact" in page("pairwise")
    assert "How the bits interact" not in page("bits")
    assert draw_couplings(measure_usage(read_run(trained("chain"))), "a") is None


def test_supermodular_couplings_are_not_negative(trained):
    assert (measure_usage(read_run(trained("supermodular"))).scores[:, 4:] >= 0).all()

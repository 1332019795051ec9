"""A run in sentences: what was trained on what, how it was measured, how its codes are used."""

from hardmax.report.describe import trained_on
from hardmax.report.discrete.kinds import WORDS, free, latent, of_bits
from hardmax.report.discrete.run import DiscreteRun
from hardmax.report.discrete.usage import Usage
from hardmax.training.estimator_schedule import explain


def subject(run: DiscreteRun) -> str:
    """Say what was trained on what."""
    return f"Discrete variational auto-encoder with {latent(run.config)}, {trained_on(run)}."


def estimator(run: DiscreteRun) -> str:
    """Say how the encoder's gradient was estimated."""
    return explain(run.config, run.model.space)


def measurement(run: DiscreteRun) -> str:
    """Say what the numbers are means over, and whether they are exact."""
    if run.model.enumerable:
        how = "−log p(x) is exact: all codes were gone through."
    elif run.model.space.offers("draw"):
        how = "−log p(x) is an upper bound, from importance-weighted samples; the gap is then a lower bound."
    else:
        how = (
            "These are numbers of perturb-and-MAP: a code is the arg max of perturbed scores, since so many "
            "interacting bits cannot be summed over. Its probability has no formula, but the pseudo-likelihood is "
            "above it; with that, KL is an upper bound of the encoder's, and −ELBO and the row −log p(x) are upper "
            "bounds of −log p(x)."
        )
    return f"Means over {len(run.pictures):,} test pictures, in nats for each. {how}"


def active_of(run: DiscreteRun) -> tuple[str, int]:
    """Return what `active` counts, and how many of them there are."""
    space = run.model.space
    if space.categories is not None:
        return "categories", space.categories
    return f"{WORDS[run.config.space].variable}s", space.event_shape[0]


def chart(run: DiscreteRun, measured: Usage) -> str:
    """Say how to read the chart of usage."""
    space, words = run.model.space, measured.words
    prior = "the uniform prior" if run.model.prior is None else "the learned prior"
    if space.categories is not None:
        most = " Shown are the 100 most used." if space.size > 100 else ""
        return f"Bars: q(z | x), averaged. Dots: for how many pictures it is the best category. Line: {prior}.{most}"
    q = "q" if measured.exact else "best code"
    if of_bits(space):
        bars = (
            f"the probability q({words.variable} = 1 | x), averaged. Line: {prior}"
            if measured.exact
            else f"for how many pictures the {words.variable} is 1 in the best code"
        )
        return f"Bars: {bars}. One that is always 0 or always 1 tells nothing."
    if free(space):
        return (
            f"Bars: the perplexity of each {words.variable}'s average {q}, from 1 (always the same {words.value}) to "
            f"all {words.value}s alike."
        )
    alike = " Under the uniform prior all are alike." if run.model.prior is None else ""
    return f"How often each {words.variable} has each {words.value}: the average {q}.{alike}"


def usage(run: DiscreteRun, measured: Usage) -> str:
    """Say how evenly the codes are used."""
    perplexity = measured.perplexity
    what = "the average q" if measured.exact else "the best codes' average"
    if run.model.space.categories is not None:
        return f"Perplexity of {what}: {perplexity.item():.2f} ({measured.most:.4g} if all were used alike)."
    return (
        f"Perplexity of {what}: {perplexity.log().mean().exp():.2f}, geometric mean over {measured.words.variable}s "
        f"({measured.most:.4g} if all codes were used alike). The best codes of {len(measured.codes):,} test pictures "
        f"are {measured.distinct:,} different ones, of perplexity {measured.distinct_perplexity:,.1f}."
    )

"""A mixed VAE's run in sentences: what was trained on what, what taught it, how it was measured."""

from hardmax.report.describe import trained_on
from hardmax.report.mixed.meaning import Meaning
from hardmax.report.mixed.run import MixedRun

_TEACHERS = {
    "argmax": "through the arg max",
    "cross-entropy": "by cross-entropy",
    "hamming": "by the expected number of wrong variables",
}


def subject(run: MixedRun, meaning: Meaning) -> str:
    """Say what was trained on what."""
    c = run.model.join.c
    if meaning.attributes:
        bits = f"a bit for each of {len(meaning.names)} attributes" if len(meaning.names) > 1 else "one bit"
        latents = f"{bits} ({', '.join(meaning.names)}) and {c} continuous dimensions beside"
    else:
        latents = f"one of {meaning.values} categories, and {c} continuous dimensions for each"
    return f"Variational auto-encoder with {latents}, {trained_on(run)}."


def method(run: MixedRun) -> str:
    """Say what taught it."""
    config = run.config
    if not config.labels:
        return "Without labels: the categories found meanings of their own."
    taught = f"{config.labels:,} labels taught it {_TEACHERS[config.supervision]}"
    if config.consistency:
        taught += ", and what it was sure of taught it distorted copies of other pictures"
    return taught + ("." if config.elbo else "; the bound did not take part.")


def measurement(run: MixedRun) -> str:
    """Say what the numbers are means over, and what is exact in them."""
    discrete = "gone through" if run.model.enumerable else "sampled"
    return (
        f"Means over {len(run.pictures):,} test pictures, in nats for each. The discrete latent is {discrete}, the "
        "continuous one is sampled once for each picture: hardmax evaluate takes more samples, with which −log p(x) "
        "falls."
    )

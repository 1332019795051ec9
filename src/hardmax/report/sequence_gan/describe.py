"""A sequence GAN's run in sentences: what was trained on what, how, and how it was measured."""

from hardmax.report.sequence_gan.run import SequenceGANRun
from hardmax.training.sequence_gan.evaluate import DRAWS_PER_SENTENCE, NGRAM

_LOSSES = {"log-ratio": "log D / (1 − D)", "non-saturating": "log D", "saturating": "−log(1 − D)"}


def subject(run: SequenceGANRun) -> str:
    """Say what was trained on what."""
    data = run.images
    language = "" if data.language is None else f", of a language of {len(data.language):,} sentences"
    return (
        f"Generative adversarial network whose LSTM writes {data.shape[0]} tokens of {len(data.symbols)} kinds, "
        f"trained on {data.name} ({len(data.train):,} sequences{language})."
    )


def method(run: SequenceGANRun) -> str:
    """Say what stood in for the derivative of the arg max."""
    config = run.config
    first = f"{config.pretrain_epochs} epochs of likelihood first, then the game. " if config.pretrain_epochs else ""
    return f"{first}The generator is paid {_LOSSES[config.loss]}, through the arg max by {config.estimator}."


def measurement(run: SequenceGANRun) -> str:
    """Say what is exact in the numbers."""
    draws = f"entropy, divergence of {NGRAM}-grams and distinct are from {run.config.evaluate_draws:,} draws."
    if run.images.language is None:
        return f"−log q is the mean over {len(run.pictures):,} test sequences, exact; {draws}"
    return (
        f"−log q is the mean over {len(run.pictures):,} test sequences. It, validity and coverage are exact, from the "
        f"generator's probabilities: coverage is the share of all sentences that {DRAWS_PER_SENTENCE} draws for each "
        f"are expected to hold. {draws[0].upper()}{draws[1:]}"
    )

"""A completion model's run in sentences: what was trained on what, what was minimised, how it was measured."""

from hardmax.data.mask_names import MASKS
from hardmax.report.completion.run import CompletionRun
from hardmax.report.describe import trained_on

_CHOICES = {
    "mixture": "all components learn from a picture, by the exact likelihood of the mixture",
    "responsibility": "the component that is most responsible for a picture learns from it",
    "distance": "the component whose mean is nearest learns from a picture",
    "encoder": "an encoder chooses the component that learns, trained through the arg max",
}


def subject(run: CompletionRun) -> str:
    """Say what was trained on what."""
    config = run.config
    if not config.latent:
        model = "Deterministic network"
    elif not config.components:
        model = f"Conditional variational auto-encoder with {config.latent} dimensions and a standard normal prior"
    else:
        many = f"a mixture of {config.components} Gaussians" if config.components > 1 else "one Gaussian"
        model = f"Completion model with {many} over {config.latent} dimensions, given the visible part"
    hidden = MASKS.get(config.mask, f"what {config.mask} is white at")
    return f"{model}, {trained_on(run)}; hidden: {hidden}."


def method(run: CompletionRun) -> str:
    """Say what was minimised, and what learns from a picture."""
    config = run.config
    if not config.components:
        return "Minus the bound of the hidden pixels was minimised."
    warm = config.warm_up_epochs
    first = f"for the first {warm} epochs a near component that was seldom chosen learns; then " if warm else ""
    how = f"{first}{_CHOICES[config.choice]}"
    if config.loss == "bound":
        return f"Minus the bound of the hidden pixels was minimised: {how}."
    form = "corrected" if config.loss == "corrected" else "with its published formula, which has no minimum"
    return f"The loss of the notes on pluralistic completion, {form}: {how}."


def measurement(run: CompletionRun) -> str:
    """Say what the numbers are means over."""
    return (
        f"Means over {len(run.pictures):,} test pictures, in nats for the hidden pixels of each, with one sample of "
        "the latent; PSNR is of one completion. hardmax evaluate takes more samples, with which −log p falls."
    )

"""A run in sentences: what was trained on what, how it was measured, how its codes are used."""

from hardmax.report.run import Run
from hardmax.report.usage import Usage
from hardmax.spaces import Binary
from hardmax.training.schedule import explain


def latent(run: Run) -> str:
    """Say what z is."""
    config = run.config
    if config.space == "binary":
        return f"{config.variables} bits" if config.variables > 1 else "one bit"
    if config.variables == 1:
        return f"one categorical variable of {config.categories} values"
    return f"{config.variables} categorical variables of {config.categories} values"


def subject(run: Run) -> str:
    """Say what was trained on what."""
    channels, height, width = run.images.shape
    colour = "" if channels == 1 else ", RGB"
    return (
        f"Discrete variational auto-encoder with {latent(run)}, trained on {run.images.name} "
        f"({len(run.images.train):,} pictures of {height} × {width}{colour})."
    )


def estimator(run: Run) -> str:
    """Say how the encoder's gradient was estimated."""
    return explain(run.config, run.model.space)


def progress(run: Run) -> str:
    """Say how far the run has come."""
    done, asked = run.last.epoch, run.config.epochs
    epochs = f"{done} of {asked} epochs" if done < asked else f"{done} epoch{'s' * (done > 1)}"
    return f"{epochs}; best bound on the validation pictures after epoch {run.best_epoch}"


def measurement(run: Run) -> str:
    """Say what the numbers are means over, and whether they are exact."""
    how = (
        "−log p(x) is exact: all codes were gone through."
        if run.model.enumerable
        else "−log p(x) is an upper bound, from importance-weighted samples; the gap is then a lower bound."
    )
    return f"Means over {len(run.pictures):,} test pictures, in nats for each. {how}"


def active_of(run: Run) -> tuple[str, int]:
    """Return what `active` counts, and how many of them there are."""
    config = run.config
    if config.space == "binary":
        return "bits", config.variables
    return ("categories", config.categories) if config.variables == 1 else ("variables", config.variables)


def chart(run: Run) -> str:
    """Say how to read the chart of usage."""
    if run.model.space.categories is not None:
        prior = "the uniform prior" if run.model.prior is None else "the learned prior"
        most = " Shown are the 100 most used." if run.model.space.size > 100 else ""
        return f"Bars: q(z | x), averaged. Dots: for how many pictures it is the best category. Line: {prior}.{most}"
    if isinstance(run.model.space, Binary):
        return "Bars: the probability q(bit = 1 | x), averaged. A bit at 0 or 1 tells nothing."
    return "Bars: the perplexity of each variable's average q, from 1 (always the same value) to all values alike."


def usage(run: Run, measured: Usage) -> str:
    """Say how evenly the codes are used."""
    perplexity, most = measured.perplexity, 2 if isinstance(run.model.space, Binary) else run.config.categories
    if run.model.space.categories is not None:
        return f"Perplexity of the average q: {perplexity.item():.2f} ({most} if all were used alike)."
    what = "bit" if most == 2 and run.config.space == "binary" else "variable"
    mean = perplexity.log().mean().exp().item()
    return (
        f"Perplexity of the average q: {mean:.2f}, geometric mean over {what}s ({most} if all values were used alike). "
        f"The best codes of {len(measured.codes):,} test pictures are {measured.distinct:,} different ones, of "
        f"perplexity {measured.distinct_perplexity:,.1f}."
    )

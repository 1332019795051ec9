"""A run in sentences, as they fit every model: on what it was trained, and how far it has come."""

from hardmax.report.run import Run


def trained_on(run: Run) -> str:
    """Say on which pictures."""
    channels, height, width = run.images.shape
    colour = "" if channels == 1 else ", RGB"
    return f"trained on {run.images.name} ({len(run.images.train):,} pictures of {height} × {width}{colour})"


def progress(run: Run) -> str:
    """Say how far the run has come."""
    done, asked = run.last.epoch, run.config.epochs
    epochs = f"{done} of {asked} epochs" if done < asked else f"{done} epoch{'s' * (done > 1)}"
    return f"{epochs}; best on the validation pictures after epoch {run.best_epoch}"

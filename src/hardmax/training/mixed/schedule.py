"""Which terms of the loss take part when. No torch here."""

from dataclasses import dataclass

from hardmax.training.mixed.config import MixedConfig


@dataclass(frozen=True)
class Weights:
    """Weights of the terms of the loss; one of weight 0 is not computed.

    Attributes:
        elbo: of the bound of unlabelled pictures.
        labelled_elbo: of the bound of labelled ones.
        labels: of what labels teach.
        consistency: of what confident predictions teach.
    """

    elbo: float
    labelled_elbo: float
    labels: float
    consistency: float


def weights_at(config: MixedConfig, epoch: int) -> Weights:
    """Return the weights in an epoch, counted from 0."""
    early = epoch < config.head_epochs
    if not config.labels:  # nothing to be consistent with
        return Weights(config.elbo, 0.0, 0.0, 0.0)
    both = config.elbo * config.labelled_elbo
    if config.schedule == "labelled-first":
        return Weights(0.0, both, config.label_weight, 0.0) if early else Weights(config.elbo, 0.0, 0.0, 0.0)
    elbo, labelled_elbo = (0.0, 0.0) if early else (config.elbo, both)
    return Weights(elbo, labelled_elbo, config.label_weight, config.consistency)

"""Which terms of the loss take part when. No torch here."""

from dataclasses import dataclass

from hardmax.training.mixed.config import MixedConfig

_RECOGNITION = 5.0  # of attributes


@dataclass(frozen=True)
class Weights:
    """Weights of the terms of the loss; one of weight 0 is not computed.

    Attributes:
        elbo: of the bound of unlabelled pictures.
        labelled_elbo: of the bound of labelled ones.
        labels: of what labels teach.
        consistency: of what confident predictions teach.
        recognition: of recognising the discrete latent in pictures that are drawn with another.
    """

    elbo: float
    labelled_elbo: float
    labels: float
    consistency: float
    recognition: float


def weights_at(config: MixedConfig, epoch: int) -> Weights:
    """Return the weights in an epoch, counted from 0."""
    early = epoch < config.head_epochs
    recognition = config.recognition
    if recognition is None:
        recognition = _RECOGNITION if config.attribute_names else 0.0
    alone = Weights(config.elbo, 0.0, 0.0, 0.0, recognition)
    if not config.labels:  # nothing to be consistent with
        return alone
    both = config.elbo * config.labelled_elbo
    if config.schedule == "labelled-first":
        return Weights(0.0, both, config.label_weight, 0.0, 0.0) if early else alone
    taught = (config.label_weight, config.consistency)
    return Weights(0.0, 0.0, *taught, 0.0) if early else Weights(config.elbo, both, *taught, recognition)

"""Options of a mixed VAE: of its training with the schedule of its loss, and of `hardmax edit`. No torch here."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.errors import ArgumentError
from hardmax.training.config import VAEConfig


@dataclass(frozen=True)
class MixedConfig(VAEConfig):
    """Train a variational auto-encoder with a discrete and a continuous latent, some of its pictures labelled.

    Example: hardmax train --model mixed --data mnist --labels 100 --epochs 20 --out runs/mixed
    """

    model: Literal["mixed"] = "mixed"
    labels: int = 100
    """Training pictures whose label is used, as many of each class; 0: none, the categories find their own meaning."""
    label_seed: int | None = None
    """Seed of the draw of those pictures; default: --seed."""
    attributes: str | None = None
    """Attributes to learn, such as smiling,male: z is one bit for each; default: one category for each class."""
    categories: int | None = None
    """Values of z where there are no labels; default: the number of classes."""
    continuous: int | None = None
    """Dimensions of each Gaussian; default: 20 for classes, 64 for attributes."""
    supervision: Literal["argmax", "cross-entropy", "hamming"] = "argmax"
    """How labels teach: z(epsilon) is the label (argmax); cross-entropy, which that is in the mean; direct optimization
    of the expected number of wrong variables (hamming)."""
    label_weight: float = 10.0
    """Weight of the labels' loss, or the bound's gradients swamp what encoder and classifier share."""
    labelled_elbo: float = 0.1
    """Weight of the bound of labelled pictures, z given."""
    elbo: float = 1.0
    """Weight of the bound, of Gaussian pixels in units of their variance; 0 leaves a classifier alone."""
    consistency: float = 10.0
    """Weight of teaching a distorted picture what the classifier is sure of for the plain one; 0: not."""
    confidence: float = 0.8
    """How sure that must be."""
    align: Literal["auto", "prior", "none"] = "auto"
    """What consistency teaches is corrected for classes that the encoder names too often or too seldom, by the prior of
    the discrete latent (prior); auto: for classes, not for attributes, which need not be as frequent."""
    recognition: float | None = None
    """Weight of recognising the discrete latent in pictures that are drawn with one taken at random, so that the
    decoder uses it; 0: not. Default: 5 for attributes, 0 for classes."""
    augment: Literal["none", "mirror", "shift", "affine", "elastic", "flip"] = "elastic"
    """How labelled pictures, and those of consistency, are distorted: mirrored (aligned faces); moved (shift); also
    turned, scaled and sheared (affine); also bent (elastic); flip: half as much of all that, and mirrored (clothes)."""
    schedule: Literal["together", "labelled-first"] = "together"
    """together: labelled and other pictures in every step, after --head-epochs of labels and consistency alone;
    labelled-first, as the paper's released code: --head-epochs on labelled pictures alone, then the others alone."""
    head_epochs: int = 2
    """Epochs before the bound of unlabelled pictures takes part."""
    labelled_batch: int = 50
    """Labelled pictures in a step, beside --batch-size others."""
    encoder_input: Literal["same", "grey"] = "same"
    """What the encoder sees: what the decoder is to draw, or the grey picture that it was rounded from."""
    architecture: Literal["auto", "mlp", "conv"] = "auto"
    """Networks: the paper's, or convolutional; auto: convolutional for pictures over 32 x 32."""
    likelihood: Literal["auto", "bernoulli", "gaussian"] = "auto"
    """Distribution of the pixels given the latents; auto: gaussian for colour, else bernoulli."""
    prior: Literal["uniform", "learned"] = "uniform"
    """Distribution of the discrete latent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("categories", "continuous", "labelled_batch")
        for name in ("labels", "label_weight", "labelled_elbo", "elbo", "consistency", "recognition", "head_epochs"):
            if (getattr(self, name) or 0) < 0:
                raise ArgumentError(f"{name.replace('_', '-')} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.confidence < 1:
            raise ArgumentError(f"confidence must be at least 0 and below 1, got {self.confidence}")
        if self.labels == 0 and self.elbo == 0:
            raise ArgumentError("without --labels and without --elbo there is nothing to learn from")
        if self.labels == 0 and self.schedule == "labelled-first":
            raise ArgumentError("schedule labelled-first needs --labels")
        if self.attributes is not None and self.categories is not None:
            raise ArgumentError("categories is for classes, attributes are bits: give one of the two")

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The attributes that are learned; none where z is a category."""
        return tuple(name.strip() for name in (self.attributes or "").split(",") if name.strip())


_RECOGNITION = 5.0  # of attributes


@dataclass(frozen=True)
class Weights:
    """Weights of the terms of the loss; one of weight 0 is not computed.

    Attributes:
        elbo: of the bound of unlabelled pictures.
        labelled_elbo: of the bound of labelled ones.
        labels: of the loss of labels.
        consistency: of the loss against confident predictions.
        recognition: of recognising the discrete latent in pictures that are drawn with another.
    """

    elbo: float
    labelled_elbo: float
    labels: float
    consistency: float
    recognition: float


def schedule_weights(config: MixedConfig, epoch: int) -> Weights:
    """Return the weights in an epoch, counted from 0."""
    early = epoch < config.head_epochs
    recognition = config.recognition
    if recognition is None:
        recognition = _RECOGNITION if config.attribute_names else 0.0
    unsupervised = Weights(config.elbo, 0.0, 0.0, 0.0, recognition)
    if not config.labels:  # nothing to be consistent with
        return unsupervised
    both = config.elbo * config.labelled_elbo
    if config.schedule == "labelled-first":
        return Weights(0.0, both, config.label_weight, 0.0, 0.0) if early else unsupervised
    supervised = (config.label_weight, config.consistency)
    return Weights(0.0, 0.0, *supervised, 0.0) if early else Weights(config.elbo, both, *supervised, recognition)


@dataclass(frozen=True)
class EditOptions:
    """Change attributes, or the class, of photos: encode each, and draw it again with another discrete latent.

    Writes each edited picture, and one sheet: the photo as the model sees it, drawn again as it is, and edited.

    Examples: hardmax edit runs/faces photo.jpg --set smiling=1,male=0; hardmax edit runs/digits 7.png --set class=3
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run of hardmax train --model mixed."""
    photos: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO [PHOTO ...]")]
    """Picture files of any size: cut to the proportions that the model knows around the centre, and resized."""
    set: str
    """What to change, such as smiling=1,male=0, class=3 or class=sneaker; all else is as the encoder sees it."""
    out: str | None = None
    """Picture file for the one edited photo, or folder; default: figures/edited in the run's folder."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""

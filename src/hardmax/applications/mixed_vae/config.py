"""Options of runs that train a mixed VAE, the schedule of its loss, and options of `hardmax edit`. Imports no torch."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from hardmax.applications.argument_parser import Argument, Metavar
from hardmax.errors import ArgumentError
from hardmax.training.config import VAEConfig


@dataclass(frozen=True)
class MixedConfig(VAEConfig):
    """Train a variational auto-encoder of images with a discrete and a continuous latent, with few labels.

    Example: hardmax train --model mixed --data mnist --labels 100 --epochs 20 --out runs/mixed
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("labels", "label_seed", "attributes", "augment", "encoder_input"),
        "model": ("categories", "continuous", "architecture", "likelihood", "prior"),
        "optimisation": (
            "supervision", "label_weight", "labelled_elbo", "elbo", "consistency", "confidence", "align", "recognition",
            "schedule", "head_epochs", "labelled_batch",
        ),
    }  # fmt: skip

    model: Literal["mixed"] = "mixed"
    labels: int = 100
    """Number of training images whose label is used, the same number of each class; 0: no labels."""
    label_seed: int | None = None
    """Random seed of the choice of these images; default: --seed."""
    attributes: Annotated[str | None, Metavar("NAMES")] = None
    """Attributes to learn, such as smiling,male: z has one bit for each; default: z is the class."""
    categories: int | None = None
    """Number of values of z, for --labels 0; default: the number of classes."""
    continuous: int | None = None
    """Number of dimensions of each Gaussian latent; default: 20 for classes, 64 for attributes."""
    supervision: Literal["argmax", "cross-entropy", "hamming"] = "argmax"
    """Loss of the labels: argmax (through the arg max; its mean gradient is that of cross-entropy / epsilon),
    cross-entropy, or hamming (direct optimization of the expected number of wrong variables)."""
    label_weight: float = 10.0
    """Weight of the loss of the labels; if it is small, the gradients of the bound dominate the shared layers."""
    labelled_elbo: float = 0.1
    """Weight of the bound of labelled images, given their z, relative to --elbo."""
    elbo: float = 1.0
    """Weight of the bound (for Gaussian pixels in units of their variance); 0 trains only a classifier."""
    consistency: float = 10.0
    """Weight of the consistency loss: a distorted image gets the confident prediction of the original; 0: none."""
    confidence: float = 0.8
    """Minimum probability of a prediction that the consistency loss uses."""
    align: Literal["auto", "prior", "none"] = "auto"
    """Correction of the predictions that the consistency loss uses. prior: each z as frequent as in its prior; none;
    auto: prior for classes, none for attributes, whose frequencies may differ from the prior."""
    recognition: float | None = None
    """Weight of the recognition loss: the encoder recognises a random z in the decoded image, so that the decoder uses
    z; 0: none. Default: 5 for attributes, 0 for classes."""
    augment: Literal["none", "mirror", "shift", "affine", "elastic", "flip"] = "elastic"
    """Distortion of labelled images and of those for the consistency loss. mirror: for aligned faces; shift; affine:
    also rotated, scaled and sheared; elastic: also bent; flip: half as much turned and bent, and mirrored (clothes)."""
    schedule: Literal["together", "labelled-first"] = "together"
    """together: labelled and unlabelled images in every step, after --head-epochs with only labels and consistency;
    labelled-first, as in the paper's released code: --head-epochs with only labelled images, then only the others."""
    head_epochs: int = 2
    """Number of epochs before the bound of unlabelled images is added."""
    labelled_batch: int = 50
    """Number of labelled images per step, in addition to --batch-size others."""
    encoder_input: Literal["same", "grey"] = "same"
    """Input of the encoder: the same image that the decoder reconstructs, or the grey image before it is rounded."""
    architecture: Literal["auto", "mlp", "conv", "conv-classifier"] = "auto"
    """Networks: fully connected as in the paper (mlp), convolutional (conv), or mlp with a separate convolutional
    network for the scores of z (conv-classifier); auto: conv for images over 32 x 32, else mlp."""
    likelihood: Literal["auto", "bernoulli", "gaussian"] = "auto"
    """Distribution of the pixels given the latents; auto: gaussian for colour, else bernoulli."""
    prior: Literal["uniform", "learned"] = "uniform"
    """Prior distribution of the discrete latent."""

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
        """The attributes that are learned; empty if z is a category."""
        return tuple(name.strip() for name in (self.attributes or "").split(",") if name.strip())


_RECOGNITION = 5.0  # default weight for attributes


@dataclass(frozen=True)
class Weights:
    """Weights of the terms of the loss; a term of weight 0 is not computed.

    Attributes:
        elbo: weight of the bound of unlabelled images.
        labelled_elbo: weight of the bound of labelled images.
        labels: weight of the loss of labels.
        consistency: weight of the loss against confident predictions.
        recognition: weight of the loss of recognising a random discrete latent in decoded images.
    """

    elbo: float
    labelled_elbo: float
    labels: float
    consistency: float
    recognition: float


def schedule_weights(config: MixedConfig, epoch: int) -> Weights:
    """Return the weights in an epoch; the first epoch is 0."""
    is_early = epoch < config.head_epochs
    recognition = config.recognition
    if recognition is None:
        recognition = _RECOGNITION if config.attribute_names else 0.0
    unsupervised = Weights(config.elbo, 0.0, 0.0, 0.0, recognition)
    if not config.labels:  # nothing to be consistent with
        return unsupervised
    labelled_elbo = config.elbo * config.labelled_elbo
    if config.schedule == "labelled-first":
        return Weights(0.0, labelled_elbo, config.label_weight, 0.0, 0.0) if is_early else unsupervised
    supervised = (config.label_weight, config.consistency)
    if is_early:
        return Weights(0.0, 0.0, *supervised, 0.0)
    return Weights(config.elbo, labelled_elbo, *supervised, recognition)


@dataclass(frozen=True)
class EditOptions:
    """Change attributes or the class of photos: encode each, and reconstruct it with another discrete latent.

    Writes each edited image, and one sheet: the photo as the model sees it, its reconstruction, and the edited image.

    Examples:
      hardmax edit runs/faces photo.jpg --set smiling=1,male=0
      hardmax edit runs/digits 7.png --set class=3
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of a run of hardmax train --model mixed."""
    photos: Annotated[tuple[str, ...], Argument("PHOTO")]
    """Image files of any size; cropped around the centre to the proportions of the model's images, and resized."""
    set: Annotated[str, Metavar("NAME=VALUE")]
    """What to change, such as smiling=1,male=0, class=3 or class=sneaker; the rest stays as recognised."""
    out: str | None = None
    """Folder to write to, or image file if there is one photo; default: figures/edited in the run's folder."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint to load: the best on the validation set, or the latest."""

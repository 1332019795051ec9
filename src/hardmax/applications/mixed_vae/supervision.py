"""Learning from few labels: the choice of labelled images, labels as z, and the terms of the loss."""

import random
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.func import functional_call

from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.data import Images, binarize, choose_attributes, load_images
from hardmax.data.images import UNKNOWN, rank_by_stratum
from hardmax.errors import ArgumentError
from hardmax.estimators import Direct
from hardmax.expectations import expectation
from hardmax.objectives import fenchel_young_loss
from hardmax.random import make_generator
from hardmax.spaces import AbstractSpace, Binary, Categorical


def draw_labelled(labels: Int64[Tensor, "N *A"], count: int, seed: int = 0) -> Int64[Tensor, "count"]:
    """Choose images to be labelled at random: equal numbers of every class, or of every combination of attributes.

    If `count` is not a multiple of the number of classes, random classes get one image more. If a class has too few
    images, all of them are chosen, and more of the other classes. The same seed gives the same order for every count:
    the first 50 of 100 images are those that are drawn for a count of 50.

    Args:
        labels: `[N]`, classes, or `[N, A]`, attributes, of the images to choose from: the training images. Images with
            a -1 are not chosen.
        count: the number of images to draw.
        seed: random seed.

    Returns:
        `[count]`, indices into `labels`, in the order in which they were drawn.

    Raises:
        ArgumentError: fewer than `count` images have a label, or `count` is too small to include every class, or every
            attribute both on and off.

    Example:
        >>> import torch
        >>> labels = torch.arange(1000) % 10
        >>> labels[draw_labelled(labels, 30, seed=1)].bincount()
        tensor([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    rows = labels.unsqueeze(1) if labels.ndim == 1 else labels
    known = (rows != UNKNOWN).all(1).nonzero().squeeze(1)
    if not len(known):
        raise ArgumentError(f"none of the {len(labels):,} images has a known label; {count:,} were asked for")
    if not 1 <= count <= len(known):
        reason = f"{len(known):,} of the {len(labels):,} images have a known label"
        raise ArgumentError(f"count is {count:,}, expected 1 to {len(known):,}: {reason}")
    # A separate generator: the one of the plain seed has assigned the images to the splits.
    generator = random.Random(f"labelled/{seed}")
    strata = [tuple(row) for row in rows[known].tolist()]
    # In each round one image of each stratum, in random order within a round.
    rounds = [(rank, generator.random()) for rank in rank_by_stratum(strata, generator)]
    order = sorted(range(len(strata)), key=rounds.__getitem__)
    chosen = known[torch.tensor(order[:count])]
    for column, (all_values, chosen_values) in enumerate(zip(rows[known].T, rows[chosen].T, strict=True)):
        if missing := sorted(set(all_values.tolist()) - set(chosen_values.tolist())):
            classes = f"{len(missing)} of the {len(all_values.unique())} classes"
            what = classes if labels.ndim == 1 else f"attribute {column} = {missing[0]}"
            raise ArgumentError(f"{count:,} labelled images leave out {what}; ask for more")
    return chosen


def load_labelled_images(config: MixedConfig) -> Images:
    """Load the images, with the requested attributes.

    Raises:
        ArgumentError: an attribute does not exist.
    """
    images = load_images(config.data, data_dir=config.data_dir, size=config.size, limit=config.limit, seed=config.seed)
    return choose_attributes(images, config.attribute_names) if config.attribute_names else images


def make_space(config: MixedConfig, images: Images) -> AbstractSpace:
    """Return the space of z_d: a bit for each attribute, or a category for each class.

    Raises:
        ArgumentError: the images have no classes, and `categories` is not set.
    """
    if config.attribute_names:
        return Binary(len(config.attribute_names))
    if config.categories is not None:
        return Categorical(config.categories)
    if images.labels is None:
        raise ArgumentError(
            f"{images.name} has no classes; give --attributes, or --categories and --labels 0, or a folder per class"
        )
    return Categorical(max(int(labels.max()) for labels in images.labels.values() if len(labels)) + 1)


@dataclass(frozen=True, eq=False)
class PreparedImages:
    """Images prepared for training or evaluation, with their labels.

    Attributes:
        x: `[N, *shape]`. The targets of the decoder.
        encoder_input: `[N, *shape]`. The input of the encoder.
        labels: `[N]` or `[N, A]`. Classes or attributes, -1 where unknown; None if there are no labels.
    """

    x: Tensor
    encoder_input: Tensor
    labels: Tensor | None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor | slice) -> "PreparedImages":
        labels = None if self.labels is None else self.labels[index]
        return PreparedImages(self.x[index], self.encoder_input[index], labels)

    def split(self, size: int) -> list["PreparedImages"]:
        """Return the images in batches."""
        return [self[begin : begin + size] for begin in range(0, len(self), size)]

    def to(self, device: str) -> "PreparedImages":
        """Return the images on a device."""
        labels = None if self.labels is None else self.labels.to(device)
        return PreparedImages(self.x.to(device), self.encoder_input.to(device), labels)


def prepare_labelled_split(config: MixedConfig, images: Images, split: str) -> PreparedImages:
    """Return the images of a split with their labels; random binarization is the same in every call."""
    pixels = getattr(images, split)
    x = binarize(pixels, config.binarize, make_generator(config.seed, "binarize", split))
    inputs = binarize(pixels, "none") if config.encoder_input == "grey" else x
    labels = images.attributes if config.attribute_names else images.labels
    return PreparedImages(x, inputs, None if labels is None else labels[split])


def encode_labels(labels: Tensor, space: AbstractSpace) -> Tensor:
    """Return labels as z: classes `[N]` one-hot, attributes `[N, A]` as bits."""
    if isinstance(space, Categorical):
        return torch.nn.functional.one_hot(labels, space.k).float()
    return labels.float()


def find_labelled(labels: Tensor) -> Tensor:
    """Return which variables of z have a label, `[N, variables]`."""
    return (labels if labels.dim() > 1 else labels[:, None]) != UNKNOWN


Supervision = Literal["argmax", "cross-entropy", "hamming"]


def label_loss(
    scores: Tensor, target: Tensor, space: AbstractSpace, kind: Supervision, *, epsilon: float, noise: Tensor
) -> Tensor:
    """Return the loss of scores against labels, `[B, *score]` and `[B, *event] -> [B]`.

    - "argmax": theorem 1 with z(epsilon) set to the label. The gradient for scores is
      `(statistics(z*) - statistics(label)) / epsilon`; its mean is the gradient of cross-entropy / epsilon.
    - "cross-entropy": `-log q(label)`.
    - "hamming": the expected number of wrong variables, through `Direct(epsilon)`.

    Args:
        scores: `[B, *score]`, of the images.
        target: `[B, *event]`, their labels as z.
        space: the space of z.
        kind: the loss.
        epsilon: the size of the perturbation in direct optimization.
        noise: `[1, B, *score]`, the noise of z.
    """
    match kind:
        case "argmax":
            return fenchel_young_loss(scores, target, space, noise=noise, validate=False) / epsilon
        case "cross-entropy":
            return -space.log_prob(scores, target)
        case "hamming":
            # A wrong category changes two entries of its one-hot row.
            entries = 2 if space.categories is not None else 1

            def negative_errors(z: Tensor) -> Tensor:
                return -(z - target).abs().flatten(2).sum(-1) / entries

            return -expectation(negative_errors, scores, space, Direct(epsilon), noise=noise, validate=False).value


def recognition_loss(model: MixedVAE, z_d: Tensor, z_c: Tensor) -> Tensor:
    """Decode latents, and return how badly the encoder recognises z_d in the images: `-log q(z_d | image)`, `[B]`.

    With a random z_d and the z_c of an image, this loss keeps the properties that z_d encodes out of z_c: a decoder
    that takes the smile from z_c would generate faces whose smile does not depend on z_d. The encoder is frozen.

    Args:
        model: the model; gradients reach its decoder and z_c.
        z_d: `[B, *event]`, the discrete latents.
        z_c: `[B, rows, c]`, the Gaussian latents.

    References:
        Chen et al., "InfoGAN: interpretable representation learning by information maximizing generative adversarial
        nets", 2016.
    """
    parameters = model.decoder(model.join.join(z_d, z_c))
    images = parameters.sigmoid() if model.log_variance is None else parameters
    encoder = nn.Sequential(model.trunk, model.discrete)
    frozen = {name: parameter.detach() for name, parameter in encoder.named_parameters()}
    return -model.space.log_prob(functional_call(encoder, frozen, (images,)), z_d)


def align_scores(scores: Tensor, marginal: Tensor, prior: Tensor | None) -> Tensor:
    """Return scores that are corrected such that the encoder predicts each z as often as the prior.

    `q(z | x) p(z) / marginal(z)`, up to a constant: Bayes' rule with the prior replaced. For scores this is a sum. No
    gradient flows through it.

    Args:
        scores: `[B, *score]`, of images.
        marginal: `[*score]`, scores of the frequency with which the encoder predicts each z.
        prior: `[*score]`, scores of p; None is uniform.

    References:
        Saerens, Latinne & Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", 2002;
        Berthelot et al., "ReMixMatch", 2020 (distribution alignment).
    """
    corrected = scores.detach() - marginal.detach()
    return corrected if prior is None else corrected + prior.detach()


def consistency_loss(
    original: Tensor, distorted: Tensor, space: AbstractSpace, confidence: float
) -> tuple[Tensor, Tensor]:
    """Return the loss of distorted images against the encoder's confident predictions for the original images.

    Args:
        original: `[B, *score]`, scores of the original images; no gradient reaches them.
        distorted: `[B, *score]`, scores of their distorted copies.
        space: the space of z.
        confidence: threshold on the probability of the best z.

    Returns:
        `-log q(best z | distorted)` where the encoder is confident, else zero, `[B]`; and where it is confident, `[B]`.

    References:
        Sohn et al., "FixMatch: simplifying semi-supervised learning with consistency and confidence", 2020.
    """
    with torch.no_grad():
        best = space.argmax(original).to(original.dtype)
        is_confident = space.log_prob(original, best).exp() > confidence
    return torch.where(is_confident, -space.log_prob(distorted, best), 0.0), is_confident

"""Learning from few labels: which images are labelled, what z they have, and the terms of the loss."""

import random
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.func import functional_call

from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.data import Images, binarize, choose_attributes, load
from hardmax.data.images import UNKNOWN, rank_by_stratum
from hardmax.errors import ArgumentError
from hardmax.estimators import Direct
from hardmax.expectations import expectation
from hardmax.objectives import fenchel_young_loss
from hardmax.random import stream
from hardmax.spaces import AbstractSpace, Binary, Categorical


def draw_labelled(labels: Int64[Tensor, "N *A"], count: int, seed: int = 0) -> Int64[Tensor, "count"]:
    """Draw images to be labelled, equal numbers of every class, or of every combination of attributes that occurs.

    The remainder after equal shares goes to random classes; a class with too few images gives all it has, and
    the others give more. The same seed gives the same order whatever the count: the first 50 of 100 are the draw
    of 50.

    Args:
        labels: `[N]`, classes, or `[N, A]`, attributes, of the images to draw from: those to train with. Images with
            a -1 are not drawn.
        count: the number of images to draw.
        seed: of the draw.

    Returns:
        `[count]`, indices into `labels`, in the order in which they were drawn.

    Raises:
        ArgumentError: fewer images than that are labelled, or `count` is so small that a class, or an attribute being
            on or off, is missing.

    Example:
        >>> import torch
        >>> labels = torch.arange(1000) % 10
        >>> labels[draw_labelled(labels, 30, seed=1)].bincount()
        tensor([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    rows = labels.unsqueeze(1) if labels.ndim == 1 else labels
    known = (rows != UNKNOWN).all(1).nonzero().squeeze(1)
    if not len(known):
        raise ArgumentError(f"none of the {len(labels):,} images has a label that is known; {count:,} were asked for")
    if not 1 <= count <= len(known):
        reason = f"{len(known):,} of the {len(labels):,} images have a label that is known"
        raise ArgumentError(f"count is {count:,}, expected 1 to {len(known):,}: {reason}")
    # A separate stream: that of the plain seed has assigned the images to the splits.
    stream = random.Random(f"labelled/{seed}")
    strata = [tuple(row) for row in rows[known].tolist()]
    # Round by round, one of each stratum, in random order within a round.
    turns = [(place, stream.random()) for place in rank_by_stratum(strata, stream)]
    order = sorted(range(len(strata)), key=turns.__getitem__)
    chosen = known[torch.tensor(order[:count])]
    for column, (there, here) in enumerate(zip(rows[known].T, rows[chosen].T, strict=True)):
        if missing := sorted(set(there.tolist()) - set(here.tolist())):
            classes = f"{len(missing)} of the {len(there.unique())} classes"
            what = classes if labels.ndim == 1 else f"attribute {column} = {missing[0]}"
            raise ArgumentError(f"{count:,} labelled images leave out {what}; ask for more")
    return chosen


def load_pictures(config: MixedConfig) -> Images:
    """Load the pictures, with the requested attributes.

    Raises:
        ArgumentError: an attribute does not exist.
    """
    images = load(config.data, data_dir=config.data_dir, size=config.size, limit=config.limit, seed=config.seed)
    return choose_attributes(images, config.attribute_names) if config.attribute_names else images


def make_space(config: MixedConfig, images: Images) -> AbstractSpace:
    """Return the space: a bit for each attribute, or a category for each class.

    Raises:
        ArgumentError: the pictures have no classes, and their number is not set.
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
class Seen:
    """Pictures prepared for training or evaluation.

    Attributes:
        x: `[N, *shape]`, the targets of the decoder.
        shown: `[N, *shape]`, the input of the encoder.
        labels: `[N]` or `[N, A]`, -1 where not known; None where there are none.
    """

    x: Tensor
    shown: Tensor
    labels: Tensor | None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor | slice) -> "Seen":
        return Seen(self.x[index], self.shown[index], None if self.labels is None else self.labels[index])

    def split(self, size: int) -> list["Seen"]:
        """Return the pictures in batches."""
        return [self[begin : begin + size] for begin in range(0, len(self), size)]

    def to(self, device: str) -> "Seen":
        """Return the pictures on a device."""
        return Seen(*(None if t is None else t.to(device) for t in (self.x, self.shown, self.labels)))  # pyright: ignore[reportArgumentType]


def prepare_labelled_split(config: MixedConfig, images: Images, split: str) -> Seen:
    """Return the pictures of a split; random binarization is the same in every call."""
    pictures = getattr(images, split)
    x = binarize(pictures, config.binarize, stream(config.seed, "binarize", split))
    inputs = binarize(pictures, "none") if config.encoder_input == "grey" else x
    labels = images.attributes if config.attribute_names else images.labels
    return Seen(x, inputs, None if labels is None else labels[split])


def as_z(labels: Tensor, space: AbstractSpace) -> Tensor:
    """Return labels as z: classes `[N]` one-hot, attributes `[N, A]` as bits."""
    if isinstance(space, Categorical):
        return torch.nn.functional.one_hot(labels, space.k).float()
    return labels.float()


def find_known(labels: Tensor) -> Tensor:
    """Return which variables of z are labelled, `[N, variables]`."""
    return (labels if labels.dim() > 1 else labels[:, None]) != UNKNOWN


Supervision = Literal["argmax", "cross-entropy", "hamming"]


def label_loss(
    scores: Tensor, target: Tensor, space: AbstractSpace, kind: Supervision, *, epsilon: float, noise: Tensor
) -> Tensor:
    """Return the loss of scores against labels, `[B, *score]` and `[B, *event] -> [B]`.

    - "argmax": theorem 1 with z(epsilon) set to the label, `(statistics(z*) - statistics(label)) / epsilon` for scores.
      In the mean it is the gradient of cross-entropy / epsilon.
    - "cross-entropy": `-log q(label)`.
    - "hamming": the expected number of wrong variables, through `Direct(epsilon)`.

    Args:
        scores: of the pictures.
        target: their labels as z.
        space: of z.
        kind: which loss.
        epsilon: of direct optimization.
        noise: `[1, B, *score]`.
    """
    match kind:
        case "argmax":
            return fenchel_young_loss(scores, target, space, noise=noise, validate=False) / epsilon
        case "cross-entropy":
            return -space.log_prob(scores, target)
        case "hamming":
            # A wrong category is two wrong entries of its one-hot row.
            entries = 2 if space.categories is not None else 1

            def right(z: Tensor) -> Tensor:
                return -(z - target).abs().flatten(2).sum(-1) / entries

            return -expectation(right, scores, space, Direct(epsilon), noise=noise, validate=False).value


def recognition_loss(model: MixedVAE, z_d: Tensor, z_c: Tensor) -> Tensor:
    """Draw pictures of latents, and return how well the encoder recognises z_d in them, `-log q(z_d | picture)` `[B]`.

    With z_d drawn at random and z_c that of a picture, it keeps out of z_c what z_d is to encode: a decoder that reads
    smiles from z_c alone draws faces whose smile does not follow z_d. The encoder only judges: it is frozen.

    Args:
        model: its decoder is trained, and so are z_c.
        z_d: `[B, *event]`.
        z_c: `[B, rows, c]`.

    References:
        Chen et al., "InfoGAN: interpretable representation learning by information maximizing generative adversarial
        nets", 2016.
    """
    parameters = model.decoder(model.join.join(z_d, z_c))
    pictures = parameters.sigmoid() if model.log_variance is None else parameters
    judge = nn.Sequential(model.trunk, model.discrete)
    frozen = {name: parameter.detach() for name, parameter in judge.named_parameters()}
    return -model.space.log_prob(functional_call(judge, frozen, (pictures,)), z_d)


def align_scores(scores: Tensor, named: Tensor, prior: Tensor | None) -> Tensor:
    """Return scores as they would be if the encoder named each z as often as the prior does.

    `q(z | x) p(z) / named(z)`, up to a constant: Bayes' rule with one prior exchanged for another, which for scores is
    a sum. No gradient flows through it.

    Args:
        scores: of pictures `[B, *score]`.
        named: scores of how often the encoder names each z, `[*score]`.
        prior: scores of p, `[*score]`; None is uniform.

    References:
        Saerens, Latinne & Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", 2002;
        Berthelot et al., "ReMixMatch", 2020 (distribution alignment).
    """
    corrected = scores.detach() - named.detach()
    return corrected if prior is None else corrected + prior.detach()


def consistency_loss(
    plain: Tensor, distorted: Tensor, space: AbstractSpace, confidence: float
) -> tuple[Tensor, Tensor]:
    """Return the loss of distorted pictures against the encoder's confident predictions for the plain ones.

    Args:
        plain: scores of the plain pictures `[B, *score]`; no gradient reaches them.
        distorted: scores of their distorted copies.
        space: of z.
        confidence: threshold on the probability of the best z.

    Returns:
        `-log q(best z | distorted)` where the encoder is sure, else zero, `[B]`; and where it is sure, `[B]`.

    References:
        Sohn et al., "FixMatch: simplifying semi-supervised learning with consistency and confidence", 2020.
    """
    with torch.no_grad():
        best = space.argmax(plain).to(plain.dtype)
        sure = space.log_prob(plain, best).exp() > confidence
    return torch.where(sure, -space.log_prob(distorted, best), 0.0), sure

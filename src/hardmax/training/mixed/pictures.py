"""The pictures of a split as a mixed VAE sees them, and what z they are labelled with."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hardmax.data import Images, binarize, choose_attributes, load
from hardmax.data.images import UNKNOWN
from hardmax.errors import ArgumentError
from hardmax.random import stream
from hardmax.spaces import AbstractSpace, Binary, Categorical
from hardmax.training.mixed.config import MixedConfig


def load_pictures(config: MixedConfig) -> Images:
    """Load the pictures, with the attributes that are asked for.

    Raises:
        ArgumentError: an attribute does not exist.
    """
    images = load(config.data, data_dir=config.data_dir, size=config.size, limit=config.limit, seed=config.seed)
    return choose_attributes(images, config.attribute_names) if config.attribute_names else images


def make_space(config: MixedConfig, images: Images) -> AbstractSpace:
    """Return the space: a bit for each attribute, or a category for each class.

    Raises:
        ArgumentError: the pictures have no classes, and their number was left open.
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
    """Pictures as they are trained or evaluated on.

    Attributes:
        x: `[N, *shape]`, what the decoder is to draw.
        shown: `[N, *shape]`, what the encoder sees of them.
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
        """Return them in batches."""
        return [self[begin : begin + size] for begin in range(0, len(self), size)]

    def to(self, device: str) -> "Seen":
        """Return them on a device."""
        return Seen(*(None if t is None else t.to(device) for t in (self.x, self.shown, self.labels)))  # pyright: ignore[reportArgumentType]


def seen(config: MixedConfig, images: Images, split: str) -> Seen:
    """Return the pictures of a split; where pixels are drawn they are always the same ones."""
    pictures = getattr(images, split)
    x = binarize(pictures, config.binarize, stream(config.seed, "binarize", split))
    shown = binarize(pictures, "none") if config.encoder_input == "grey" else x
    told = images.attributes if config.attribute_names else images.labels
    return Seen(x, shown, None if told is None else told[split])


def as_z(labels: Tensor, space: AbstractSpace) -> Tensor:
    """Return labels as z: classes `[N]` one-hot, attributes `[N, A]` as bits."""
    if isinstance(space, Categorical):
        return torch.nn.functional.one_hot(labels, space.k).float()
    return labels.float()


def known(labels: Tensor) -> Tensor:
    """Return which variables of z are labelled, `[N, variables]`."""
    return (labels if labels.dim() > 1 else labels[:, None]) != UNKNOWN

"""Which pictures belong together: what each is paired with, and what it must not be taken for."""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from hardmax.data import Images
from hardmax.data.images import UNKNOWN
from hardmax.errors import ArgumentError
from hardmax.training.hashing.config import HashingConfig
from hardmax.training.hashing.neighbours import nearest_pictures


class AbstractPairs(ABC):
    """Who among the training pictures is paired with a picture."""

    @abstractmethod
    def draw(self, index: Int64[Tensor, "B"], generator: torch.Generator) -> Int64[Tensor, "B"]:
        """Draw a partner for each of some training pictures."""

    @abstractmethod
    def draw_for(self, split: str, generator: torch.Generator) -> Int64[Tensor, "Q"] | None:
        """Draw a partner among the training pictures for each picture that is evaluated; None: itself."""

    def negative(self, split: str, index: Int64[Tensor, "B"]) -> Bool[Tensor, "B B"]:
        """Return which pairs of some pictures are unlike which; by default all others."""
        return ~torch.eye(len(index), dtype=torch.bool, device=index.device)


@final
class Copies(AbstractPairs):
    """A picture with itself: distortions make the two differ."""

    def draw(self, index: Int64[Tensor, "B"], generator: torch.Generator) -> Int64[Tensor, "B"]:
        """Return the pictures themselves."""
        return index

    def draw_for(self, split: str, generator: torch.Generator) -> None:
        """Return nothing: every picture is its own partner."""
        return None


@final
class Neighbours(AbstractPairs):
    """A picture with one of the training pictures nearest to it.

    Args:
        pictures: to train with, and those that are evaluated, by split.
        count: how many are near enough.
    """

    def __init__(self, pictures: dict[str, Float[Tensor, "_ ..."]], count: int) -> None:
        train = pictures["train"]
        if len(train) < 2:
            raise ArgumentError("neighbours need at least two training pictures; give more, or --pairs distorted")
        self._near = {
            split: nearest_pictures(some, train, count, same=split == "train") for split, some in pictures.items()
        }

    def draw(self, index: Int64[Tensor, "B"], generator: torch.Generator) -> Int64[Tensor, "B"]:
        """Draw one of the neighbours of each."""
        return _chosen(self._near["train"][index], generator)

    def draw_for(self, split: str, generator: torch.Generator) -> Int64[Tensor, "Q"]:
        """Draw one of the neighbours of each."""
        return _chosen(self._near[split], generator)


@final
class Classes(AbstractPairs):
    """A picture with another of its class; those of other classes are its negatives.

    Args:
        labels: of the pictures to train with, and of those that are evaluated, by split.
    """

    def __init__(self, labels: dict[str, Int64[Tensor, "_"]]) -> None:
        self._labels = labels
        order = labels["train"].argsort(stable=True)
        self._members = {int(label): order[labels["train"][order] == label] for label in labels["train"].unique()}

    def draw(self, index: Int64[Tensor, "B"], generator: torch.Generator) -> Int64[Tensor, "B"]:
        """Draw a picture of the same class for each; one whose class is not known is its own partner."""
        return self._of_class(self._labels["train"][index], generator, index)

    def draw_for(self, split: str, generator: torch.Generator) -> Int64[Tensor, "Q"]:
        """Draw a picture of the same class; where there is none, any."""
        labels = self._labels[split]
        anyone = torch.randint(len(self._labels["train"]), labels.shape, generator=generator, device=labels.device)
        return self._of_class(labels, generator, anyone)

    def negative(self, split: str, index: Int64[Tensor, "B"]) -> Bool[Tensor, "B B"]:
        """Return which are of other classes; one whose class is not known is unlike all others."""
        labels = self._labels[split][index]
        same = (labels[:, None] == labels) & (labels != UNKNOWN)
        return super().negative(split, index) & ~same

    def _of_class(self, labels: Tensor, generator: torch.Generator, otherwise: Tensor) -> Tensor:
        chance, partner = torch.rand(labels.shape, generator=generator, device=labels.device), otherwise.clone()
        for label, members in self._members.items():
            if label != UNKNOWN:
                own = labels == label
                partner[own] = members[(chance[own] * len(members)).long().clamp_max(len(members) - 1)]
        return partner


def make_pairs(config: HashingConfig, images: Images, pictures: dict[str, Float[Tensor, "_ ..."]]) -> AbstractPairs:
    """Return the pairs that a configuration asks for.

    Args:
        config: of the run.
        images: for their labels.
        pictures: to train with, and those that are evaluated, by split.

    Raises:
        ArgumentError: pairs of one class are asked for, and there are no labels.
    """
    match config.pairs:
        case "distorted":
            return Copies()
        case "neighbours":
            return Neighbours(pictures, config.neighbours)
        case "labels":
            if images.labels is None:
                raise ArgumentError(f"{images.name} has no labels; give --pairs neighbours, or a folder per class")
            device = pictures["train"].device
            told = images.labels
            return Classes({split: told[split][: len(some)].to(device) for split, some in pictures.items()})


def _chosen(near: Tensor, generator: torch.Generator) -> Tensor:
    """Return one of each row."""
    place = torch.randint(near.shape[1], (len(near), 1), generator=generator, device=near.device)
    return near.gather(1, place).squeeze(1)

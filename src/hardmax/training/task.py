"""A task: a model with its data, the gradients of one step, and its evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from hardmax.data import Images, Sequences, binarize, load
from hardmax.models import AbstractModel
from hardmax.random import stream
from hardmax.training.config import PictureConfig, TrainConfig
from hardmax.training.processes import Group

Row = dict[str, Any]
C = TypeVar("C", bound=TrainConfig)
M = TypeVar("M", bound=AbstractModel)
SPLITS = ("validation", "test")
Data = Images | Sequences


@dataclass(frozen=True, eq=False)
class ParameterUpdate:
    """A part of a step that updates some parameters and keeps all others fixed.

    Most models have one. Of two models that are trained against each other each has its own.

    Attributes:
        parameters: those that are updated.
        add_gradients: as `AbstractTask.add_gradients`; it gives zero for what another update measures, the count too.
        rate: their learning rate, in that of the run.
        betas: of Adam.
        times: how often it is made in a step.
    """

    parameters: tuple[nn.Parameter, ...]
    add_gradients: Callable[[Tensor, int, int], Tensor]
    rate: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    times: int = 1


class AbstractTask(ABC, Generic[C, M]):
    """What a model's training knows, and the loop does not.

    A subclass sets the attributes below in its `start`. It looks at the configuration alone for what it does, and draws
    from `generators` alone: a run that goes on is then the run that never stopped. What is drawn is drawn for the whole
    batch, whatever part of it is this process's: with several processes the result is the same.

    Attributes:
        sums: names of what `add_gradients` adds up over the examples of a step; a row of "train" has their means.
        config: what the run is told.
        model: what is trained and saved.
        group: the processes that train it.
        generators: named after what they are for; set anew for every epoch, their state kept in checkpoints within one.
        count: examples in an epoch.
    """

    sums: ClassVar[tuple[str, ...]]

    config: C
    model: M
    group: Group
    generators: dict[str, torch.Generator]
    count: int

    @staticmethod
    def load(config: Any) -> Data:
        """Return the data; by default pictures."""
        return load(config.data, data_dir=config.data_dir, size=config.size, limit=config.limit, seed=config.seed)

    @classmethod
    @abstractmethod
    def start(cls, config: Any, images: Any, start: int, group: Group) -> "AbstractTask":
        """Return the task before the first step, with the initial weights of this number."""

    @classmethod
    @abstractmethod
    def couples_examples(cls, config: Any) -> bool:
        """Whether the gradient of an example depends on the others of its batch, so that processes cannot share it."""

    @abstractmethod
    def explain(self) -> str:
        """Say in a line how it is trained, and why where that was left open."""

    @property
    def learned(self) -> list[nn.Parameter]:
        """Parameters that are trained beside the model's and are no part of it; mostly none."""
        return []

    @property
    def updates(self) -> tuple[ParameterUpdate, ...]:
        """The parts of a step: by default one update of all parameters by `add_gradients`."""
        return (ParameterUpdate((*self.model.parameters(), *self.learned), self.add_gradients),)

    @abstractmethod
    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of a step's loss.

        Args:
            index: the examples of the step, those of all processes.
            epoch: epochs finished before it.
            step: steps done before it.

        Returns:
            This process's part of `sums`, NaN for what is not measured in this epoch; last, how many examples it took.
        """

    @abstractmethod
    def evaluate(self, split: str) -> Row:
        """Return the means over the validation or test examples, with the criterion among them."""

    @abstractmethod
    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return what a reader sees of an epoch, from the row of each split."""


_SMALL = 32  # pixels, up to which one hidden layer sees a whole picture


def choose_networks(asked: Literal["auto", "mlp", "conv"], shape: tuple[int, int, int]) -> Literal["mlp", "conv"]:
    """Return the networks for pictures of a shape (channels, H, W); "auto" is convolutional for large ones."""
    if asked != "auto":
        return asked
    return "conv" if max(shape[1:]) > _SMALL else "mlp"


def choose_likelihood(
    asked: Literal["auto", "bernoulli", "gaussian"], shape: tuple[int, int, int]
) -> Literal["bernoulli", "gaussian"]:
    """Return the distribution of the pixels of pictures of a shape (channels, H, W); "auto" is gaussian for colour."""
    if asked != "auto":
        return asked
    return "gaussian" if shape[0] > 1 else "bernoulli"


@contextmanager
def draw_initial_weights(seed: int, start: int) -> Iterator[None]:
    """Draw the initial weights of this number within; torch's global generator is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "init", *([start] if start else [])).initial_seed())
        yield


Split = Literal["train", "validation", "test"]


def prepare_split(config: PictureConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split as the model sees them, `[N, *shape]`; drawn pixels are always the same ones."""
    return binarize(getattr(images, split), config.binarize, stream(config.seed, "binarize", split))

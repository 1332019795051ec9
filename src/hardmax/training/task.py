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

    Most models have one update. Two models that are trained against each other have one each.

    Attributes:
        parameters: the parameters to update.
        add_gradients: as `AbstractTask.add_gradients`; returns zero for sums that another update measures, also for the
            count.
        rate: their learning rate, as a multiple of the run's.
        betas: coefficients of Adam.
        times: number of times it is applied in a step.
    """

    parameters: tuple[nn.Parameter, ...]
    add_gradients: Callable[[Tensor, int, int], Tensor]
    rate: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    times: int = 1


class AbstractTask(ABC, Generic[C, M]):
    """The model-specific part of training: everything that the training loop leaves open.

    A subclass sets the attributes below in its `start`. Its behaviour depends on the configuration alone, and it draws
    from `generators` alone: a resumed run is then identical to one that never stopped. Random numbers are drawn for the
    whole batch, not only for this process's part: with several processes the result is the same.

    Attributes:
        sums: names of the values that `add_gradients` sums over the examples of a step; a row of "train" has their
            means.
        config: the options of the run.
        model: the model that is trained and saved.
        group: the processes that train it.
        generators: by their purpose; seeded again for every epoch, their state kept in checkpoints within one.
        count: number of examples in an epoch.
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
        """Return the task before the first step, with initial weights number `start`."""

    @classmethod
    @abstractmethod
    def couples_examples(cls, config: Any) -> bool:
        """Whether the gradient of an example depends on the others of its batch, so that processes cannot share it."""

    @abstractmethod
    def explain(self) -> str:
        """Return one line on how the model is trained, and on the reason where the method was chosen automatically."""

    @property
    def learned(self) -> list[nn.Parameter]:
        """Parameters that are trained in addition to the model's and are not part of it; usually none."""
        return []

    @property
    def updates(self) -> tuple[ParameterUpdate, ...]:
        """The parts of a step: by default one update of all parameters by `add_gradients`."""
        return (ParameterUpdate((*self.model.parameters(), *self.learned), self.add_gradients),)

    @abstractmethod
    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Add this process's part to the gradients of a step's loss.

        Args:
            index: the examples of the step, of all processes.
            epoch: number of epochs finished before it.
            step: number of steps done before it.

        Returns:
            This process's part of `sums`, NaN for those not measured in this epoch; last, its number of examples.
        """

    @abstractmethod
    def evaluate(self, split: str) -> Row:
        """Return the means over the validation or test examples, with the criterion among them."""

    @abstractmethod
    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line of text about an epoch, from the row of each split."""


_SMALL = 32  # pixels of a side, up to which one hidden layer sees a whole picture


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
    """Draw initial weights number `start` within the block; torch's global generator is restored after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "init", *([start] if start else [])).initial_seed())
        yield


Split = Literal["train", "validation", "test"]


def prepare_split(config: PictureConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split as the model sees them, `[N, *shape]`; sampled pixels are always the same."""
    return binarize(getattr(images, split), config.binarize, stream(config.seed, "binarize", split))

"""A task: a model with its data, the gradients of one step, and its evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from hardmax._deprecation import RenamedMember, adopt_renamed_members
from hardmax.data import Decisions, Images, Sequences, binarize, load_images
from hardmax.data.images import describe_flatness
from hardmax.errors import DataError
from hardmax.models import AbstractModel
from hardmax.random import make_generator
from hardmax.training.config import ImageConfig, TrainConfig
from hardmax.training.processes import Group

Row = dict[str, Any]
C = TypeVar("C", bound=TrainConfig)
M = TypeVar("M", bound=AbstractModel)
SPLITS = ("validation", "test")
Data = Images | Sequences | Decisions


@dataclass(frozen=True, eq=False)
class ParameterUpdate:
    """A part of a training step that updates some parameters and keeps all others fixed.

    Most models have one update. Two networks that are trained against each other have one each.

    Attributes:
        parameters: the parameters to update.
        add_gradients: the same as `AbstractTask.add_gradients`; returns zero for sums, and for the number of examples,
            that another update already returns.
        rate: their learning rate, as a multiple of the run's.
        betas: coefficients of Adam.
        times: number of times the update is applied in a step.
    """

    parameters: tuple[nn.Parameter, ...]
    add_gradients: Callable[[Tensor, int, int], Tensor]
    rate: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    times: int = 1


class AbstractTask(ABC, Generic[C, M]):
    """The model-specific part of training: the data, the model, the gradients of a step, and the evaluation.

    A subclass sets the attributes below in its `build`. It depends only on the configuration, and draws random numbers
    only from `generators`: a resumed run is then identical to one that never stopped. It draws them for the entire
    batch, not only for this process's slice: the result is then the same with any number of processes.

    Attributes:
        sums: names of the values that `add_gradients` sums over the examples of a step; the row of the split "train"
            has their means.
        config: the options of the run.
        model: the model that is trained and saved.
        group: the processes that train it.
        generators: random generators by purpose; seeded again for every epoch, with their state in checkpoints.
        count: number of training examples.
    """

    sums: ClassVar[tuple[str, ...]]

    config: C
    model: M
    group: Group
    generators: dict[str, torch.Generator]
    count: int

    load = RenamedMember("load_data")
    start = RenamedMember("build")
    explain = RenamedMember("describe_training")
    learned = RenamedMember("extra_parameters")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        adopt_renamed_members(cls)

    @staticmethod
    def load_data(config: Any) -> Data:
        """Load the data that a configuration names; by default images."""
        return load_images(
            config.data, data_dir=config.data_dir, size=config.size, limit=config.limit, seed=config.seed
        )

    @classmethod
    @abstractmethod
    def build(cls, config: Any, images: Any, start: int, group: Group) -> "AbstractTask":
        """Build the task before the first step.

        Args:
            config: options of the run.
            images: the data that `load_data` returned.
            start: number of the initial weights, from 0; each number gives other random weights.
            group: the processes that train.
        """

    @classmethod
    @abstractmethod
    def couples_examples(cls, config: Any) -> bool:
        """Whether the gradient of an example depends on other examples of its batch.

        Processes cannot share such a batch.
        """

    @abstractmethod
    def describe_training(self) -> str:
        """Return one line: how the model is trained, and the reason if the method was chosen automatically."""

    @property
    def extra_parameters(self) -> list[nn.Parameter]:
        """Parameters that are trained but are not saved with the model, such as those of an estimator; usually none."""
        return []

    @property
    def updates(self) -> tuple[ParameterUpdate, ...]:
        """The parts of a step: by default one update of all parameters by `add_gradients`."""
        return (ParameterUpdate((*self.model.parameters(), *self.extra_parameters), self.add_gradients),)

    @abstractmethod
    def add_gradients(self, index: Tensor, epoch: int, step: int) -> Tensor:
        """Compute this process's part of the gradient of a step's loss, and add it to `.grad`.

        Args:
            index: indices of the examples of the step, of all processes.
            epoch: number of finished epochs.
            step: number of finished steps.

        Returns:
            This process's part of `sums`, NaN for those not measured in this epoch; then its number of examples.
        """

    @abstractmethod
    def evaluate(self, split: str) -> Row:
        """Return the metrics, as means over the validation or test examples; the criterion is one of them."""

    @abstractmethod
    def summarize_epoch(self, rows: Mapping[str, Row]) -> str:
        """Return a line of text about an epoch, given the row of each split."""


_SMALL = 32  # largest height and width, in pixels, of images for fully connected networks


def choose_networks(
    architecture: Literal["auto", "mlp", "conv"], shape: tuple[int, int, int]
) -> Literal["mlp", "conv"]:
    """Return the kind of networks for images of a shape (channels, H, W); "auto" is "conv" for large images."""
    if architecture != "auto":
        return architecture
    return "conv" if max(shape[1:]) > _SMALL else "mlp"


def choose_likelihood(
    likelihood: Literal["auto", "bernoulli", "gaussian"], shape: tuple[int, int, int]
) -> Literal["bernoulli", "gaussian"]:
    """Return the distribution of the pixels of images of a shape (channels, H, W); "auto" is "gaussian" for colour."""
    if likelihood != "auto":
        return likelihood
    return "gaussian" if shape[0] > 1 else "bernoulli"


@contextmanager
def draw_initial_weights(seed: int, start: int) -> Iterator[None]:
    """Seed torch for the initial weights number `start` within the block; its global generator is restored after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(make_generator(seed, "init", *([start] if start else [])).initial_seed())
        yield


Split = Literal["train", "validation", "test"]


def prepare_split(config: ImageConfig, images: Images, split: Split) -> Tensor:
    """Return the images of a split as inputs of the model, `[N, *shape]`; sampled pixels are the same in every call."""
    return binarize(getattr(images, split), config.binarize, make_generator(config.seed, "binarize", split))


def load_stored_data(config: TrainConfig, task: "type[AbstractTask[Any, Any]]", examples: str) -> Data:
    """Load the data of a run that exists; they may have moved since.

    Args:
        config: its options, with the current location of the data.
        task: class of its task.
        examples: what the examples are called, in the plural.

    Raises:
        DataError: the data cannot be read.
    """
    try:
        return task.load_data(config)
    except DataError as error:
        raise DataError(
            f"cannot load the run's {examples}: {error}; say where they are now with --data or --data-dir"
        ) from error


def find_data_problems(config: TrainConfig, data: Data) -> list[str]:
    """Return sentences about what the configuration makes of the data and the user may not expect; mostly none."""
    if not isinstance(config, ImageConfig) or not isinstance(data, Images):
        return []
    problems = []
    if (flat := describe_flatness(data, config.binarize)) is not None:
        problems.append(flat)
    if config.binarize != "none" and data.shape[0] > 1:
        problems.append(
            f"colour images are rounded to 8 colours, since --binarize is {config.binarize}; --binarize none keeps them"
        )
    return problems

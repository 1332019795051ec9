"""What is trained: a model with its data, the gradients of one step, and how good it is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from hardmax.data import Images, Sequences, load
from hardmax.models import AbstractModel
from hardmax.training.config import TrainConfig
from hardmax.training.group import Group
from hardmax.training.turn import Turn

Row = dict[str, Any]
C = TypeVar("C", bound=TrainConfig)
M = TypeVar("M", bound=AbstractModel)
SPLITS = ("validation", "test")
Data = Images | Sequences


class AbstractTask(ABC, Generic[C, M]):
    """What a model's training knows, and the loop does not.

    A subclass sets the attributes below in its `start`. It looks at the configuration alone for what it does, and draws
    from `generators` alone: a run that goes on is then the run that never stopped. What is drawn is drawn for the whole
    batch, whatever part of it is this process's: with several processes the result is the same.

    Attributes:
        examples: what the data are, in the plural.
        sums: names of what `add_gradients` adds up over the examples of a step; a row of "train" has their means.
        metrics: names of all columns of `metrics.jsonl`, in their order.
        criterion: the one of them by which the best checkpoint is kept, the higher the better.
        config: what the run is told.
        model: what is trained and saved.
        group: the processes that train it.
        generators: named after what they are for; set anew for every epoch, their state kept in checkpoints within one.
        count: examples in an epoch.
    """

    examples: ClassVar[str] = "pictures"
    sums: ClassVar[tuple[str, ...]]
    metrics: ClassVar[tuple[str, ...]]
    criterion: ClassVar[str] = "elbo"

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
    def turns(self) -> tuple[Turn, ...]:
        """What a step is made of: by default one turn, in which all parameters move by `add_gradients`."""
        return (Turn((*self.model.parameters(), *self.learned), self.add_gradients),)

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
        """Return the means over the validation or test examples, with `criterion` among them."""

    @abstractmethod
    def tell(self, rows: Mapping[str, Row]) -> str:
        """Return what a reader sees of an epoch, from the row of each split."""

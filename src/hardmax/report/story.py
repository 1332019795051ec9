"""What a page tells of one kind of model, beside what it tells of all."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from hardmax.report.curves import Curves
from hardmax.report.numbers import Fact, Quantity
from hardmax.report.run import Measured, Run

R = TypeVar("R", bound=Run)


class AbstractStory(ABC, Generic[R]):
    """What a model's own part of a page is made of.

    Attributes:
        examples: what the data are, in the plural.
        kept_by: what the best epoch has of the validation examples.
        row: what a row of `metrics.jsonl` holds.
        quantities: what is measured of it after every epoch, first what training is about.
        sections: the id of each of its own sections, and what it is called in the list of them.
        template: of these sections, in this package.
        styles: of these sections, in this package; beside that of all pages.
    """

    examples: ClassVar[str] = "pictures"
    kept_by: ClassVar[str] = "highest ELBO"
    row: ClassVar[type[Measured]]
    quantities: ClassVar[tuple[Quantity, ...]]
    sections: ClassVar[dict[str, str]]
    template: ClassVar[str]
    styles: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def pictures(self, config: Any, images: Any) -> Any:
        """Return the test examples that were evaluated after each epoch."""

    @abstractmethod
    def subject(self, run: R) -> str:
        """Say what was trained on what."""

    @abstractmethod
    def method(self, run: R) -> str:
        """Say how it was trained."""

    @abstractmethod
    def measurement(self, run: R) -> str:
        """Say what the numbers are means over, and whether they are exact."""

    @abstractmethod
    def facts(self, run: R) -> list[Fact]:
        """Return what else to put among the numbers."""

    @abstractmethod
    def curves_of_run(self, run: R) -> list[Curves]:
        """Draw how one run came along."""

    @abstractmethod
    def curves_of_runs(self, runs: Sequence[R], names: Sequence[str]) -> list[Curves]:
        """Draw how several runs came along."""

    @abstractmethod
    def told(self, run: R, index: int) -> Any:
        """Return the dataclass that the template of the sections asks for.

        Args:
            run: whom it is about.
            index: which of the runs on the page it is: figures need names that no other has.
        """

"""The parts of a report page that an application fills in: sentences, image tiles, sections."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from jaxtyping import Float
from torch import Tensor

from hardmax.drawing.images import encode_data_uri, make_grid, shrink_image
from hardmax.report.curves import Curves
from hardmax.report.run import Measured, Run
from hardmax.report.tables import Fact, Quantity


def describe_data(run: Run) -> str:
    """Return which pictures the run was trained on."""
    channels, height, width = run.images.shape
    colour = "" if channels == 1 else ", RGB"
    return f"trained on {run.images.name} ({len(run.images.train):,} pictures of {height} × {width}{colour})"


def describe_progress(run: Run) -> str:
    """Return how many epochs of the run are done, and its best epoch."""
    done, asked = run.last.epoch, run.config.epochs
    epochs = f"{done} of {asked} epochs" if done < asked else f"{done} epoch{'s' * (done > 1)}"
    return f"{epochs}; best by validation after epoch {run.best_epoch}"


@dataclass(frozen=True)
class Tile:
    """A picture with a caption.

    Attributes:
        source: the picture, as a data URI.
        width: width in pixels.
        height: height in pixels.
        alt: what it shows.
        caption: lines below it.
        mark: how to mark it, such as unused or wrong; empty for no mark.
    """

    source: str
    width: int
    height: int
    alt: str
    caption: tuple[str, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Tiles:
    """Rows of tiles of one size.

    Attributes:
        note: how to read them.
        rows: for each row its heading, which may be empty, and its tiles.
    """

    note: str
    rows: Sequence[tuple[str, Sequence[Tile]]]

    @property
    def width(self) -> int:
        """Width of a tile in pixels."""
        return self.rows[0][1][0].width


def make_tile(
    pictures: Float[Tensor, "N channels H W"],
    alt: str,
    *caption: str,
    mark: str = "",
    columns: int = 1,
) -> Tile:
    """Return a tile of one picture, or of several in one or more columns, with lines between but not around them."""
    framed = make_grid(shrink_image(pictures), columns=columns, padding=1)
    image = framed.crop((1, 1, framed.width - 1, framed.height - 1))
    return Tile(encode_data_uri(image), image.width, image.height, alt, caption, mark)


def spread_indices(count: int, wanted: int) -> list[int]:
    """Return indices spread evenly over `range(count)`, at most `wanted`."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]


R = TypeVar("R", bound=Run)


class AbstractReport(ABC, Generic[R]):
    """The model-specific part of a report page.

    Attributes:
        kept_by: what distinguishes the best epoch on the validation examples.
        row: class of a row of `metrics.jsonl`.
        quantities: quantities measured after every epoch, first the one that training optimizes.
        sections: the id of each of its own sections, and its name in the list of sections.
        template: template of these sections, a file next to the class.
        styles: styles of these sections, files next to the class; added to the style of all pages.
    """

    kept_by: ClassVar[str] = "highest ELBO"
    row: ClassVar[type[Measured]]
    quantities: ClassVar[tuple[Quantity, ...]]
    sections: ClassVar[dict[str, str]]
    template: ClassVar[str] = "report.html.j2"
    styles: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def pictures(self, config: Any, images: Any) -> Any:
        """Return the test examples that were evaluated after each epoch."""

    @abstractmethod
    def subject(self, run: R) -> str:
        """Return what was trained, and on which data."""

    @abstractmethod
    def method(self, run: R) -> str:
        """Return how it was trained."""

    @abstractmethod
    def measurement(self, run: R) -> str:
        """Return what the numbers are means over, and whether they are exact."""

    @abstractmethod
    def facts(self, run: R) -> list[Fact]:
        """Return the facts to show among the numbers."""

    @abstractmethod
    def curves_of_run(self, run: R) -> list[Curves]:
        """Draw the curves of one run."""

    @abstractmethod
    def curves_of_runs(self, runs: Sequence[R], names: Sequence[str]) -> list[Curves]:
        """Draw the curves of several runs."""

    @abstractmethod
    def build_content(self, run: R, index: int) -> Any:
        """Return the dataclass that the template of the sections needs.

        Args:
            run: the run that it describes.
            index: index of the run on the page: figures need unique names.
        """

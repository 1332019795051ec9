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
    """Say on which pictures."""
    channels, height, width = run.images.shape
    colour = "" if channels == 1 else ", RGB"
    return f"trained on {run.images.name} ({len(run.images.train):,} pictures of {height} × {width}{colour})"


def describe_progress(run: Run) -> str:
    """Say how far the run has come."""
    done, asked = run.last.epoch, run.config.epochs
    epochs = f"{done} of {asked} epochs" if done < asked else f"{done} epoch{'s' * (done > 1)}"
    return f"{epochs}; best by validation after epoch {run.best_epoch}"


@dataclass(frozen=True)
class Tile:
    """A picture with a caption.

    Attributes:
        source: the picture, inside its own address.
        width: its pixels.
        height: its pixels.
        alt: what it shows.
        caption: lines beneath it.
        mark: what to mark it as, if anything: unused, wrong.
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
        rows: a heading or nothing, and tiles.
    """

    note: str
    rows: Sequence[tuple[str, Sequence[Tile]]]

    @property
    def width(self) -> int:
        """Pixels of a tile."""
        return self.rows[0][1][0].width


def make_tile(
    pictures: Float[Tensor, "N channels H W"],
    alt: str,
    *caption: str,
    mark: str = "",
    columns: int = 1,
) -> Tile:
    """Make a tile of one picture, or of several in a column (or in several), with lines between but not around."""
    framed = make_grid(shrink_image(pictures), columns=columns, padding=1)
    drawn = framed.crop((1, 1, framed.width - 1, framed.height - 1))
    return Tile(encode_data_uri(drawn), drawn.width, drawn.height, alt, caption, mark)


def spread_indices(count: int, wanted: int) -> list[int]:
    """Return indices from all over a range, at most as many as wanted."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]


R = TypeVar("R", bound=Run)


class AbstractReport(ABC, Generic[R]):
    """What a model's own part of a page is made of.

    Attributes:
        kept_by: what the best epoch has of the validation examples.
        row: what a row of `metrics.jsonl` holds.
        quantities: what is measured of it after every epoch, first what training is about.
        sections: the id of each of its own sections, and what it is called in the list of them.
        template: of these sections, a file beside the class.
        styles: of these sections, files beside the class; added to the style of all pages.
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
    def build_content(self, run: R, index: int) -> Any:
        """Return the dataclass that the template of the sections asks for.

        Args:
            run: whom it is about.
            index: which of the runs on the page it is: figures need names that no other has.
        """

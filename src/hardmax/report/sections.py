"""The parts of a report page that each application provides: sentences, image tiles, sections."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from jaxtyping import Float
from torch import Tensor

from hardmax._deprecation import RenamedMember, adopt_renamed_members
from hardmax.drawing.images import encode_data_uri, make_grid, shrink_image
from hardmax.report.curves import Curves
from hardmax.report.run import MetricsRow, Run
from hardmax.report.tables import Fact, Quantity


def describe_data(run: Run) -> str:
    """Return the images that a run was trained on, as text."""
    channels, height, width = run.images.shape
    colour = "" if channels == 1 else ", RGB"
    return f"trained on {run.images.name} ({len(run.images.train):,} images of {height} × {width}{colour})"


def describe_progress(run: Run) -> str:
    """Return the number of finished epochs of a run and its best epoch, as text."""
    done, total = run.last.epoch, run.config.epochs
    epochs = f"{done} of {total} epochs" if done < total else f"{done} epoch{'s' * (done > 1)}"
    return f"{epochs}; best by validation after epoch {run.best_epoch}"


@dataclass(frozen=True)
class Tile:
    """An image with a caption.

    Attributes:
        source: the image, as a data URI.
        width: width in pixels.
        height: height in pixels.
        alt: what it shows, for readers who do not see it.
        caption: lines of text below it.
        mark: a mark, such as "unused" or "wrong"; empty for none.
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
    images: Float[Tensor, "N channels H W"],
    alt: str,
    *caption: str,
    mark: str = "",
    columns: int = 1,
) -> Tile:
    """Return a tile of one image, or of several in columns, with thin lines between them."""
    framed = make_grid(shrink_image(images), columns=columns, padding=1)
    image = framed.crop((1, 1, framed.width - 1, framed.height - 1))
    return Tile(encode_data_uri(image), image.width, image.height, alt, caption, mark)


def spread_indices(count: int, wanted: int) -> list[int]:
    """Return at most `wanted` indices, evenly spread over `range(count)`."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]


R = TypeVar("R", bound=Run)


class AbstractReport(ABC, Generic[R]):
    """The model-specific part of a report page.

    Attributes:
        criterion: what the best epoch has on the validation examples, as text.
        row: class of a row of `metrics.jsonl`.
        quantities: quantities measured after every epoch, first the one that training optimizes.
        sections: id and title of each section that the application adds.
        template: jinja template of these sections, a file next to the class.
        styles: CSS of these sections, files next to the class; added to the style of all pages.
    """

    criterion: ClassVar[str] = "highest ELBO"
    row: ClassVar[type[MetricsRow]]
    quantities: ClassVar[tuple[Quantity, ...]]
    sections: ClassVar[dict[str, str]]
    template: ClassVar[str] = "report.html.j2"
    styles: ClassVar[tuple[str, ...]] = ()

    kept_by = RenamedMember("criterion")
    subject = RenamedMember("describe_model")
    method = RenamedMember("describe_training")
    measurement = RenamedMember("describe_measurement")
    facts = RenamedMember("list_facts")
    curves_of_run = RenamedMember("draw_run_curves")
    curves_of_runs = RenamedMember("draw_comparison_curves")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        adopt_renamed_members(cls)

    @abstractmethod
    def prepare_test_examples(self, config: Any, images: Any) -> Any:
        """Return the test examples that were evaluated after each epoch."""

    @abstractmethod
    def describe_model(self, run: R) -> str:
        """Return a sentence: what was trained, and on which data."""

    @abstractmethod
    def describe_training(self, run: R) -> str:
        """Return a sentence: how it was trained."""

    @abstractmethod
    def describe_measurement(self, run: R) -> str:
        """Return a sentence: what the numbers are means over, and whether they are exact."""

    @abstractmethod
    def list_facts(self, run: R) -> list[Fact]:
        """Return the facts to show in the table of numbers."""

    @abstractmethod
    def draw_run_curves(self, run: R) -> list[Curves]:
        """Draw the curves of one run."""

    @abstractmethod
    def draw_comparison_curves(self, runs: Sequence[R], names: Sequence[str]) -> list[Curves]:
        """Draw curves that compare several runs; `names` are their names in the legend."""

    @abstractmethod
    def build_content(self, run: R, index: int) -> Any:
        """Return a dataclass with everything that the template of the sections needs.

        Args:
            run: the run to describe.
            index: index of the run on the page, for unique names of figures.
        """

"""Options and helpers shared by the commands of all applications. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from hardmax.applications.registry import Application, find_application
from hardmax.errors import ArgumentError, DataError
from hardmax.training.run_folder import read_facts

if TYPE_CHECKING:
    from PIL import Image

    from hardmax.models import AbstractModel


def check_model(command: str, run: str, served: Sequence[str]) -> Application:
    """Return the application of a run, after checking that a command supports it.

    Args:
        command: name of the command.
        run: folder of the run.
        served: names of the applications that have the command.

    Raises:
        DataError: the folder holds no run, or the command does not support its model.
    """
    model = read_facts(Path(run))["config"].get("model", "discrete")
    if model not in served:
        names = " or ".join(served)
        raise DataError(f"hardmax {command} is for runs of --model {names}, but {run} is one of --model {model}")
    return find_application(model)


def refuse_options(options: Any, *names: str) -> None:
    """Raise an error for options that do not apply to the model of the run.

    Args:
        options: options of a command, with the field `run`.
        names: names of fields that must have their default.

    Raises:
        ArgumentError: one of them has another value.
    """
    for name in names:
        if getattr(options, name) != getattr(type(options), name):
            model = read_facts(Path(options.run))["config"].get("model", "discrete")
            option = name.replace("_", "-")
            raise ArgumentError(f"--{option} is not for runs of --model {model}, such as {options.run}; leave it out")


@dataclass(frozen=True)
class EvaluateOptions:
    """Say how good a trained model is: bound and -log p(x), exact where z can be enumerated; accuracy, completions.

    Of a sequence GAN: -log q, and validity and coverage of a language, exact; other numbers from draws.

    Examples: hardmax evaluate runs/first --split test; hardmax evaluate runs/faces --samples 20 --json
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    json: bool = False
    """Print one JSON object instead of a table."""
    split: Literal["train", "validation", "test"] = "test"
    """Pictures, or sequences, to evaluate on."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    samples: int | None = None
    """Samples for each picture, of z where it cannot be enumerated and of Gaussians; default: 1000, of mixed models
    100, of completion models 10. Sequences that a sequence GAN draws; default: 10,000."""
    refine: bool = False
    """Also improve the encoder's best code of each picture by greedy changes: what a search adds to the encoder
    (discrete models)."""
    perturb_and_map: bool = False
    """Also give the bound of the encoder as perturb-and-MAP (discrete models of pairwise bits)."""
    judge: int | None = None
    """Also train a small classifier for so many epochs on the run's own pictures, and let it judge completions: their
    classes and the Frechet distance of its features (completion models)."""
    images: int | None = None
    """Most pictures, or sequences, to evaluate; default: all."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""

    def __post_init__(self) -> None:
        for name in ("samples", "images", "judge"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        images: number of pictures, or of other examples.
        numbers: all numbers, by name.
        tables: for each table its headings, and rows with one text for each heading.
    """

    images: int
    numbers: dict[str, Any]
    tables: list[tuple[tuple[str, ...], list[tuple[str, ...]]]]


_PICTURES = 64


@dataclass(frozen=True)
class SampleOptions:
    """Draw latents from the prior of a trained model and write their pictures as one grid.

    Of a mixed model, each row has one continuous latent, and each column is a class or a setting of the attributes. Of
    a completion model, each row is a test picture with its hole, itself, and completions of it. Of a sequence GAN,
    sequences are printed, one in a line.

    Examples: hardmax sample runs/first --count 64; hardmax sample runs/faces --attributes male=0 --vary smiling
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    count: int | None = None
    """Number of pictures, of a mixed or completion model number of rows, of a sequence GAN number of sequences;
    default: 64 pictures, 8 rows, 20 sequences."""
    attributes: str | None = None
    """Attributes that are the same in all columns, such as smiling=1,male=0."""
    vary: str | None = None
    """Attributes that change from column to column, such as smiling, at most three; default: all that are not set."""
    out: str | None = None
    """PNG file to write; default: figures/samples.png in the run's folder. Of a sequence GAN a text file, instead of
    printing."""
    seed: int = 0
    """Seed of the samples."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")


def write_picture(options: SampleOptions, picture: "Image.Image", said: str) -> None:
    """Write a picture of samples to a file, and print `said` with its path."""
    from hardmax.drawing.images import save_image

    path = Path(options.out or Path(options.run) / "figures" / "samples.png")
    save_image(picture, path)
    print(f"{said} in {path}")


def write_grid(options: SampleOptions, kind: "type[AbstractModel]") -> None:
    """Write a grid of samples from a model whose `sample` needs only their number.

    Raises:
        ArgumentError: attributes are given.
    """
    from hardmax.applications.runs import load_run
    from hardmax.drawing.images import make_grid
    from hardmax.random import stream

    refuse_options(options, "attributes", "vary")
    count = options.count or _PICTURES
    model: Any = load_run(options.run, options.checkpoint, kind=kind).model
    pictures, _ = model.sample(count, generator=stream(options.seed, "sample"))
    write_picture(options, make_grid(pictures), f"{count} pictures")

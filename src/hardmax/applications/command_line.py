"""Options and helpers shared by the commands of all applications. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hardmax.applications.argument_parser import Argument, Metavar
from hardmax.applications.registry import Application, find_application
from hardmax.console import print_line
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
    """Evaluate a trained model and print its metrics.

    For a variational auto-encoder these are the bound and -log p(x), exact where z can be enumerated, and the metrics
    of the application, such as accuracy. For a sequence GAN these are -log q, validity and coverage of a language
    (exact), and metrics of sampled sequences. For a decision model this is the regret.

    Examples:
      hardmax evaluate runs/first --split test
      hardmax evaluate runs/faces --samples 20 --json
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of the run."""
    json: bool = False
    """Print one JSON object instead of a table."""
    split: Literal["train", "validation", "test"] = "test"
    """Split to evaluate on."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint to load: the best on the validation set, or the latest."""
    samples: int | None = None
    """Number of samples of the latents per image, where the bound is not exact; default: 1000, for mixed models 100,
    for completion models 10. For a sequence GAN the number of sampled sequences; default: 10,000."""
    refine: bool = False
    """Also improve the encoder's best code of each image by greedy single changes, and print the bound of the result
    (discrete models)."""
    perturb_and_map: bool = False
    """Also print the bound with perturb-and-MAP as the encoder's distribution (discrete models of pairwise bits)."""
    judge: int | None = None
    """Also train a classifier on the run's images for this number of epochs, and use it to evaluate completions:
    their classes, and the Frechet distance of its features (completion models)."""
    images: int | None = None
    """Maximum number of images, or sequences, to evaluate; default: all."""
    data: str | None = None
    """Path of the data, if they have moved since the run was trained; for a decision model an .npz file of your own,
    with the arrays features and costs."""
    data_dir: str | None = None
    """Folder that contains the named data sets; default: that of the run."""
    device: str = "cpu"
    """Device to evaluate on: cpu, cuda."""

    def __post_init__(self) -> None:
        for name in ("samples", "images", "judge"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        images: number of images, or of other examples.
        numbers: all numbers, by name.
        tables: for each table its headings, and rows with one text for each heading.
    """

    images: int
    numbers: dict[str, Any]
    tables: list[tuple[tuple[str, ...], list[tuple[str, ...]]]]


_IMAGES = 64


@dataclass(frozen=True)
class SampleOptions:
    """Draw samples from a trained model, and write them as a grid of images.

    Latents are drawn from the prior. For a mixed model, each row has one continuous latent, and each column is a class
    or a setting of the attributes. For a completion model, each row shows a test image with its hole, the complete
    image, and completions. For a sequence GAN, sequences are printed, one per line.

    Examples:
      hardmax sample runs/first --count 64
      hardmax sample runs/faces --attributes male=0 --vary smiling
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of the run."""
    count: int | None = None
    """Number of images (default: 64); for a mixed or completion model number of rows (default: 8); for a sequence GAN
    number of sequences (default: 20)."""
    attributes: Annotated[str | None, Metavar("NAME=VALUE")] = None
    """Attributes to fix in all columns, such as smiling=1,male=0."""
    vary: Annotated[str | None, Metavar("NAMES")] = None
    """Attributes to vary from column to column, at most three, such as smiling; default: all that are not fixed."""
    out: str | None = None
    """PNG file to write; default: figures/samples.png in the folder of the run. For a sequence GAN a text file;
    default: print."""
    seed: int = 0
    """Random seed of the samples."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint to load: the best on the validation set, or the latest."""
    data: str | None = None
    """Path of the data, if they have moved since the run was trained; only a completion model needs them."""
    data_dir: str | None = None
    """Folder that contains the named data sets; default: that of the run."""

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")


def write_image(options: SampleOptions, image: "Image.Image", description: str) -> None:
    """Write an image of samples to a file, and print a description with its path."""
    from hardmax.drawing.images import save_image

    path = Path(options.out or Path(options.run) / "figures" / "samples.png")
    save_image(image, path)
    print_line(f"{description} in {path}")


def write_grid(options: SampleOptions, kind: "type[AbstractModel]") -> None:
    """Write a grid of samples from a model whose `sample` needs only their number.

    Raises:
        ArgumentError: attributes are given.
    """
    from hardmax.applications.runs import load_run
    from hardmax.drawing.images import make_grid
    from hardmax.random import make_generator

    refuse_options(options, "attributes", "vary")
    count = options.count or _IMAGES
    model: Any = load_run(options.run, options.checkpoint, kind=kind).model
    images, _ = model.sample(count, generator=make_generator(options.seed, "sample"))
    write_image(options, make_grid(images), f"{count} images")

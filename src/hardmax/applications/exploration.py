"""What an application offers to the latent explorer of the studio: controls, and what they show.

An explorer has no page: it lists its controls, turns a state (a value for each control) into views, and writes the
Python code that does the same. The studio draws controls and views, and knows no application.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax.applications.explorer_controls import PHOTO, Control, ImagesView, State, View, check_state
from hardmax.data import binarize
from hardmax.data.image_files import fit_photo
from hardmax.random import make_generator
from hardmax.report.run import Run
from hardmax.report.sections import make_tile

R = TypeVar("R", bound=Run)


class AbstractExplorer(ABC, Generic[R]):
    """What the latent explorer shows of one run; the application's record names its class.

    One instance serves all browsers, from several threads: its methods change nothing in it.

    Args:
        run: the run, with its model in evaluation mode and its data.
        images: `[N, *shape]`, inputs of the model that the control "image" chooses from; None if there is no such
            control.

    Attributes:
        about: one sentence for the user: what to do here.
        controls: what the user can turn.
    """

    about: ClassVar[str]
    controls: tuple[Control, ...]

    def __init__(self, run: R, images: Tensor | None = None) -> None:
        self._run, self._model, self._images = run, run.model, images

    def start(self) -> State:
        """Return the state at first: by default every control at its default, then the first one changed."""
        defaults = check_state(self.controls, {})
        return self.update(defaults, self.controls[0].name, None, defaults)

    def read_photo(self, path: Path) -> Any:
        """Read a photo that the user has uploaded, as an input of the model; the file may come from anyone.

        Raises:
            DataError: the file is not an image, or is too large.
        """
        return self._fit_photo(path, self._run.config.binarize)

    def _fit_photo(self, path: Path, binarization: str) -> Tensor:
        """Return a photo in the shape of the images, `[1, *shape]`, with pixels that are rounded in the same way."""
        assert self._images is not None  # there is a control for it
        channels, height, width = self._images.shape[1:]
        pixels: UInt8[Tensor, "1 channels H W"] = fit_photo(path, (channels, height, width)).pixels
        return binarize(pixels, binarization, make_generator(self._run.config.seed, "binarize", "photo"))  # pyright: ignore[reportArgumentType]

    def _choose_image(self, state: State, photo: Tensor | None) -> Tensor:
        """Return the image of the control "image", `[1, *shape]`: one of the images, or the photo if there is one."""
        assert self._images is not None
        return choose_image(self._images, state["image"], photo)

    def _write_image_choice(
        self, state: State, examples: str = "run.test_examples", binarization: str | None = None
    ) -> str:
        """Return the lines of code that choose the image x of the control "image"; a photo is read from photo.png.

        Args:
            state: the values of all controls.
            examples: expression for all examples.
            binarization: how the pixels of a photo are rounded; None: as in the run.
        """
        assert self._images is not None
        if state["image"] != PHOTO:
            return f"x = {examples}[{state['image']}:{state['image'] + 1}]\n"
        config, shape = self._run.config, tuple(self._images.shape[1:])
        return (
            "from pathlib import Path\n"
            "from hardmax.data import binarize\n"
            "from hardmax.data.image_files import fit_photo\n"
            "from hardmax.random import make_generator\n\n"
            f'pixels = fit_photo(Path("photo.png"), {shape}).pixels  # your photo\n'
            f'noise = make_generator({config.seed}, "binarize", "photo")\n'
            f"x = binarize(pixels, {binarization or config.binarize!r}, noise)\n"
        )

    def update(self, state: State, changed: str, photo: Any, before: State) -> State:
        """Return the state after the user has changed one control, such as the code of an image that was chosen.

        Args:
            state: the values of all controls, that of the changed one included.
            changed: name of the control.
            photo: the result of `read_photo`; None if there is no photo.
            before: the values before the change.
        """
        return state

    @abstractmethod
    def draw(self, state: State, photo: Any) -> list[View]:
        """Return what a state shows.

        Args:
            state: the values of all controls.
            photo: the result of `read_photo`; None if there is no photo.
        """

    @abstractmethod
    def write_python(self, state: State) -> str:
        """Return Python code that computes what a state shows: it runs as it is."""


def write_prelude(run: Run, *imports: str) -> str:
    """Return the first lines of the code of an explorer: imports, and the run."""
    lines = ["import torch", *imports, "from hardmax.applications.runs import read_run", ""]
    return "\n".join(
        [*lines, f"run = read_run({str(run.folder.resolve())!r})", "model = run.model.requires_grad_(False)", ""]
    )


def choose_image(images: Tensor, value: int, photo: Tensor | None) -> Tensor:
    """Return the image of an `ImageControl`, `[1, *shape]`: one of the examples, or the photo if there is one."""
    if value == PHOTO and photo is not None:
        return photo
    return images[max(value, 0)][None]


def show_decoded(x: Tensor, own: Tensor, chosen: Tensor, what: str, note: str = "") -> ImagesView:
    """Return a view of an image, of what its own latents stand for, and of what the chosen ones do, `[1, *shape]` each.

    Args:
        x: the image that is encoded.
        own: the image that its own latents stand for.
        chosen: the image that the chosen latents stand for.
        what: what is chosen, such as "code".
        note: how to read it.
    """
    tiles = [
        make_tile(x, "the image to encode", "image"),
        make_tile(own, f"the image that its own {what} stands for", f"its own {what}"),
        make_tile(chosen, f"the image that the chosen {what} stands for", f"chosen {what}"),
    ]
    return ImagesView("Decoded", tiles, note, chosen=2, size=_LARGE)


_LARGE = 168  # height of a decoded image on the page, in pixels


def format_tensor(values: Sequence[Any]) -> str:
    """Return Python code for a tensor of floats."""
    return f"torch.tensor({list(values)}, dtype=torch.float32)"


def to_floats(values: Tensor) -> list[float]:
    """Return the values of a tensor as finite floats, for bars and states."""
    return torch.nan_to_num(values.detach().double()).flatten().tolist()

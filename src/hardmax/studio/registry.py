"""The registry of the pages of the studio. Imports neither torch nor NiceGUI.

A new page is a module in `hardmax/studio/pages` and a record here; nothing else in the studio lists pages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class PageRecord:
    """A page of the studio.

    Attributes:
        title: its name in the navigation.
        path: its address, such as "/gradient".
        about: one sentence for the first page.
        build: the function that builds it, as "module:name"; it gets the `Studio` and the query of the address.
        document: a function that returns an HTML document without scripts, at the path of the page followed by
            "/document", as "module:name"; it gets the same arguments, and runs in a thread. Empty if there is none.
    """

    title: str
    path: str
    about: str
    build: str
    document: str = ""

    def load(self) -> Callable[..., Any]:
        """Return the function that builds the page."""
        return _load(self.build)

    def load_document(self) -> Callable[..., str]:
        """Return the function that returns the document."""
        return _load(self.document)


def _load(place: str) -> Callable[..., Any]:
    module, name = place.split(":")
    return getattr(import_module(module), name)


PAGES = (
    PageRecord(
        "Gradient lab",
        "/gradient",
        "Choose a space, drag the scores and f, and see what each estimator makes of the gradient.",
        "hardmax.studio.pages.gradient_lab:build_page",
    ),
    PageRecord(
        "Runs",
        "/runs",
        "See every run below your folders, live; compare their curves and options, and find the best estimator.",
        "hardmax.studio.pages.runs:build_page",
        document="hardmax.studio.pages.runs:write_report",
    ),
    PageRecord(
        "Latent explorer",
        "/latents",
        "Turn the bits, categories, tokens or sliders of a trained model, and see what they stand for.",
        "hardmax.studio.pages.latents:build_page",
    ),
    PageRecord(
        "Solver lab",
        "/solver",
        "Paint a terrain, scores or strokes on an image; see the path, matching or cut, and the gradient of its worth.",
        "hardmax.studio.pages.solver_lab:build_page",
    ),
    PageRecord(
        "Scans",
        "/scans",
        "Look at segmented scans in three planes, at their structures and doubts, and compare two label maps.",
        "hardmax.studio.pages.scans:build_page",
    ),
)

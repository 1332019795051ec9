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
    """

    title: str
    path: str
    about: str
    build: str

    def load(self) -> Callable[..., Any]:
        """Return the function that builds the page."""
        module, name = self.build.split(":")
        return getattr(import_module(module), name)


PAGES = (
    PageRecord(
        "Gradient lab",
        "/gradient",
        "Choose a space, drag the scores and f, and see what each estimator makes of the gradient.",
        "hardmax.studio.pages.gradient_lab:build_page",
    ),
)

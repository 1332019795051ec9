"""The gradient lab: estimators of one small gradient, next to the exact one."""

from collections.abc import Mapping

from nicegui import ui

from hardmax.studio.frame import Studio, add_note


def build_page(studio: Studio, query: Mapping[str, str]) -> None:
    """Build the page."""
    add_note("Choose a space.")
    ui.label(str(len(query)))

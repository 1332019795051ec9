"""Who tells the story of which model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardmax.errors import DataError
from hardmax.training.catalogue import MODELS

if TYPE_CHECKING:
    from hardmax.report.story import AbstractStory

# name: class in report/<name>/story.py
STORIES = {"completion": "CompletionStory", "discrete": "DiscreteStory", "mixed": "MixedStory"}


def story_of(model: str) -> "AbstractStory[Any]":
    """Return what tells of runs of a model.

    Raises:
        DataError: nobody does yet.
    """
    if model not in STORIES:
        raise DataError(f"there is no report about {MODELS[model][2]} yet; there are some about: {', '.join(STORIES)}")
    return getattr(import_module(f"hardmax.report.{model}.story"), STORIES[model])()

"""Who tells the story of which model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardmax.errors import DataError
from hardmax.training.catalogue import MODELS, folder_of

if TYPE_CHECKING:
    from hardmax.report.story import AbstractStory

# name: class in report/<folder>/story.py
STORIES = {
    "discrete": "DiscreteStory",
    "mixed": "MixedStory",
    "dvae": "DvaeStory",
    "token-prior": "TokenPriorStory",
    "sequence-gan": "SequenceGANStory",
    "hashing": "HashingStory",
    "completion": "CompletionStory",
}


def story_of(model: str) -> "AbstractStory[Any]":
    """Return what tells of runs of a model.

    Raises:
        DataError: nobody does yet.
    """
    if model not in STORIES:
        raise DataError(f"there is no report about {MODELS[model][2]} yet; there are some about: {', '.join(STORIES)}")
    return getattr(import_module(f"hardmax.report.{folder_of(model)}.story"), STORIES[model])()

"""What `hardmax train` can train: where the configuration and the task of each model are. No torch here."""

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from hardmax.training.config import TrainConfig
    from hardmax.training.task import AbstractTask

# name: (configuration in training/<name>/config.py, task in training/<name>/task.py, one line of help)
MODELS = {
    "discrete": ("DiscreteConfig", "DiscreteTask", "a variational auto-encoder with discrete latents"),
    "mixed": ("MixedConfig", "MixedTask", "one with a discrete and a continuous latent, of few labels"),
    "completion": ("CompletionConfig", "CompletionTask", "a model that completes pictures in many ways"),
}


def config_class(model: str) -> "type[TrainConfig]":
    """Return the class of a model's configuration.

    Raises:
        ArgumentError: there is no such model.
    """
    if model not in MODELS:
        near = get_close_matches(model, MODELS, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(MODELS)}"
        raise ArgumentError(f"there is no model {model!r}; {hint}")
    return getattr(import_module(f"hardmax.training.{model}.config"), MODELS[model][0])


def task_class(model: str) -> "type[AbstractTask[Any, Any]]":
    """Return the class that trains a model."""
    return getattr(import_module(f"hardmax.training.{model}.task"), MODELS[model][1])

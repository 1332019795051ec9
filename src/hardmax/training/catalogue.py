"""What `hardmax train` can train: where the configuration and the task of each model are. No torch here."""

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from hardmax.training.config import TrainConfig
    from hardmax.training.task import AbstractTask

# name: (configuration in training/<folder>/config.py, task in training/<folder>/task.py, one line of help)
MODELS = {
    "discrete": ("DiscreteConfig", "DiscreteTask", "a variational auto-encoder with discrete latents"),
    "mixed": ("MixedConfig", "MixedTask", "one with a discrete and a continuous latent, of few labels"),
    "dvae": ("DvaeConfig", "DvaeTask", "one that turns pictures into grids of tokens, and back"),
    "token-prior": ("TokenPriorConfig", "TokenPriorTask", "a prior over such tokens, which generates pictures"),
    "sequence-gan": ("SequenceGANConfig", "SequenceGANTask", "a generator of sequences and its discriminator"),
    "hashing": ("HashingConfig", "HashingTask", "an encoder of pictures to codes of bits, to find alike ones"),
    "completion": ("CompletionConfig", "CompletionTask", "a model that completes pictures in many ways"),
}


def folder_of(model: str) -> str:
    """Return the name of the folders that hold what is a model's own, in training, report and cli."""
    return model.replace("-", "_")


def config_class(model: str) -> "type[TrainConfig]":
    """Return the class of a model's configuration.

    Raises:
        ArgumentError: there is no such model.
    """
    if model not in MODELS:
        near = get_close_matches(model, MODELS, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(MODELS)}"
        raise ArgumentError(f"there is no model {model!r}; {hint}")
    return getattr(import_module(f"hardmax.training.{folder_of(model)}.config"), MODELS[model][0])


def task_class(model: str) -> "type[AbstractTask[Any, Any]]":
    """Return the class that trains a model."""
    return getattr(import_module(f"hardmax.training.{folder_of(model)}.task"), MODELS[model][1])

"""The prior of z, given by its scores."""

from torch import Tensor

from hardmax.errors import ShapeError
from hardmax.spaces import AbstractSpace


def check_prior(prior: Tensor | None, space: AbstractSpace) -> None:
    """Raise `ShapeError` unless prior is None (uniform) or scores of the space; a wrong one would be broadcast."""
    if prior is not None and tuple(prior.shape[prior.dim() - len(space.score_shape) :]) != space.score_shape:
        raise ShapeError(f"prior has shape {list(prior.shape)}, but {space} needs {list(space.score_shape)}")


def log_prior(prior: Tensor | None, space: AbstractSpace, z: Tensor) -> Tensor | float:
    """Return log p(z), p given by its scores or uniform: `[..., *event] -> [...]`."""
    return -space.log_size if prior is None else space.log_prob(prior, z)

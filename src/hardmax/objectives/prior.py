"""The prior of z, given by its scores."""

from torch import Tensor

from hardmax.errors import ShapeError
from hardmax.spaces import AbstractSpace


def check_prior(prior: Tensor | None, space: AbstractSpace) -> None:
    """Raise `ShapeError` unless prior is None (uniform) or scores of the space; a wrong one would be broadcast."""
    if prior is not None and tuple(prior.shape[prior.dim() - len(space.score_shape) :]) != space.score_shape:
        raise ShapeError(f"prior has shape {list(prior.shape)}, but {space} needs {list(space.score_shape)}")

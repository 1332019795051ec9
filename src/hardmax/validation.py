"""Checks of a caller's arguments before the computation starts."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.spaces.abstract import AbstractSpace, replace_minus_infinity


def find_first_index(mask: Tensor) -> list[int]:
    """Return the index of the first True of a mask."""
    return mask.nonzero()[0].tolist()


def check_scores(scores: Tensor, space: AbstractSpace, *, values: bool) -> Tensor:
    """Check that scores suit a space, and return them without minus infinity, which means "not allowed".

    Args:
        scores: `[*B, *score]`.
        space: the space of z.
        values: also check that scores are finite or minus infinity, and that every example allows a z.

    Returns:
        Scores with a very low value for minus infinity, whose z have probability and gradient zero.
    """
    check_space(space)
    if not isinstance(scores, Tensor):
        raise DtypeError(f"scores must be a torch.Tensor, got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise DtypeError(f"scores must be floating point, got {scores.dtype}; pass scores.float()")
    space.batch_shape(scores)
    # A finite sum has finite terms; only a sum that is not finite needs a closer look.
    if values and math.isfinite(scores.detach().sum().item()):
        space.check_values(scores)
        return scores
    if values:
        _check_infinite_scores(scores, space)
    if not space.takes_masks:
        return scores
    finite = replace_minus_infinity(scores)
    if values:
        space.check_values(finite)
        _check_masks(scores, finite, space)
    return finite


def check_space(space: object) -> None:
    """Raise `ArgumentError` unless this is an instance of a space."""
    if isinstance(space, AbstractSpace):
        return
    if isinstance(space, int):
        raise ArgumentError(
            f"space must be a space, got {space}; for one choice of {space} values pass hm.Categorical({space})"
        )
    if isinstance(space, type) and issubclass(space, AbstractSpace):
        raise ArgumentError(
            f"space must be a space, got the class {space.__name__}; pass an instance, such as hm.Categorical(10)"
        )
    raise ArgumentError(f"space must be a space such as hm.Categorical(10), got {type(space).__name__}")


def _check_infinite_scores(scores: Tensor, space: AbstractSpace) -> None:
    """Raise `ArgumentError` for NaN and plus infinity, and for minus infinity where a space cannot use it."""
    finite = scores.isfinite()
    wrong = scores.isnan() | scores.isposinf() if space.takes_masks else ~finite
    if wrong.any():
        index = find_first_index(wrong)
        mask = ", or -inf for what is not allowed" if space.takes_masks else ""
        raise ArgumentError(
            f"scores must be finite{mask}, got {scores[tuple(index)].item()} at index {index} "
            f"({int((~finite).sum())} of {scores.numel()} are not finite); look for a diverged encoder"
        )


def _check_masks(scores: Tensor, finite: Tensor, space: AbstractSpace) -> None:
    """Raise `ArgumentError` if an example allows no z: its best z uses a score of minus infinity."""
    is_masked = scores.detach().isneginf()
    if not is_masked.any():
        return
    statistics = space.statistics(space.argmax(finite.detach()).to(finite.dtype))
    lead = scores.dim() - len(space.score_shape)
    is_used = ((statistics != 0) & is_masked).flatten(lead).any(-1)
    if is_used.any():
        raise ArgumentError(
            f"the scores of -inf leave no z of {space} in example {find_first_index(is_used)}; allow more"
        )


def check_finite(values: Tensor, name: str, example: Callable[[list[int]], list[int]]) -> None:
    """Check that a function of the caller returned finite values.

    Args:
        values: what it returned.
        name: the name of the function, for the error.
        example: maps an index into the values to the index of the example.
    """
    # If the sum is finite, every term is; the sum of large finite values may be infinite.
    if not math.isfinite(values.detach().sum().item()) and (bad := ~values.isfinite()).any():
        index = find_first_index(bad)
        raise ArgumentError(
            f"{name} returned {values[tuple(index)].item()} for example {example(index)} (at index {index} of its "
            f"result, {int(bad.sum())} of {values.numel()} values are not finite); look at that example, or at a "
            "diverged decoder"
        )


def describe_infinite(values: Tensor) -> str | None:
    """Return the first entry that is NaN or inf, its index and how many there are, for an error; None if there is none.

    Example:
        >>> describe_infinite(torch.tensor([0.0, float("nan")]))
        'got nan at index [1] (1 of 2 are not finite)'
    """
    # A finite sum has finite terms; only a sum that is not finite needs a closer look.
    if math.isfinite(values.detach().sum(dtype=torch.float64).item()) or (finite := values.isfinite()).all():
        return None
    index = find_first_index(~finite)
    count = int((~finite).sum())
    return f"got {values[tuple(index)].item()} at index {index} ({count} of {values.numel()} are not finite)"


def check_noise(noise: Tensor, scores: Tensor, samples: int | None, noises: int, draw_shape: tuple[int, ...]) -> int:
    """Check the caller's noise and return S; samples may be None, 1 or S.

    The noise is `[S * noises, *B, *score]`, or `[S * noises, *draw_shape]` where that includes the batch.
    """
    if noise.shape[1:] not in (scores.shape, draw_shape) or not noise.dim() or not noise.is_floating_point():
        raise ShapeError(
            f"noise has shape {list(noise.shape)} and dtype {noise.dtype}, but scores of shape "
            f"{list(scores.shape)} need floating-point noise [S, {', '.join(map(str, scores.shape))}]"
        )
    count, rest = divmod(len(noise), noises)
    if rest:
        raise ShapeError(f"this estimator needs {noises} noise tensors for each sample, but noise holds {len(noise)}")
    if samples not in (None, 1, count):
        raise ShapeError(f"noise holds {count} samples, but samples={samples}; leave samples out")
    check_samples(count)
    return count


def check_samples(samples: int) -> None:
    """Check the number of samples."""
    if samples < 1:
        raise ArgumentError(f"samples must be at least 1, got {samples}")


def check_draws(draws: int) -> None:
    """Check the number of perturbations for each sample."""
    if draws < 1:
        raise ArgumentError(f"draws must be at least 1, got {draws}")


def check_positive(name: str, value: float) -> None:
    """Check that a step or a temperature is positive and finite."""
    if not value > 0 or value == float("inf"):
        raise ArgumentError(f"{name} must be a positive number, got {value}")


def check_device(name: str) -> None:
    """Check that the device exists on this machine."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ArgumentError(f"device {name!r} cannot be used here: {reason}; leave --device out for the CPU") from error

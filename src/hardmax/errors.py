"""The errors hardmax raises on purpose; every one is a `HardmaxError`.

A message says what is wrong, what was received, what was expected and what to do.
"""


class HardmaxError(Exception):
    """Base of every error that hardmax raises on purpose."""


class ArgumentError(HardmaxError, ValueError):
    """An argument has a value that cannot be used (epsilon <= 0, NaN scores, ...)."""


class ShapeError(ArgumentError):
    """A tensor has the wrong shape."""


class DtypeError(ArgumentError, TypeError):
    """A tensor has the wrong dtype."""


class NotExactError(HardmaxError):
    """A space cannot give, or not at this size, an exact quantity that was asked of it."""


class DataError(HardmaxError, ValueError):
    """A data file is missing, broken or not what was expected."""


class MissingExtraError(HardmaxError, ImportError):
    """A library is needed that comes with an optional extra of hardmax."""


class ClusterError(HardmaxError):
    """A cluster does not answer, or cannot do the work."""

"""Errors that hardmax raises on purpose; all are subclasses of `HardmaxError`.

A message says what is wrong, what was received, what was expected and what to do.
"""

from hardmax.names import escape_control_characters


class HardmaxError(Exception):
    r"""Base class of all errors that hardmax raises on purpose.

    Its message is one line of visible characters, also if it quotes a file: a control character is written as `\n`.
    """

    def __str__(self) -> str:
        return escape_control_characters(super().__str__())


class ArgumentError(HardmaxError, ValueError):
    """An argument has a value that cannot be used (epsilon <= 0, NaN scores, ...)."""


class ShapeError(ArgumentError):
    """A tensor has the wrong shape."""


class DtypeError(ArgumentError, TypeError):
    """A tensor has the wrong dtype."""


class NotExactError(HardmaxError):
    """A space cannot compute a requested quantity exactly, or not at this size."""


class SolverError(HardmaxError):
    """A solver that the user provides failed, took too long or returned something that cannot be used."""


class DataError(HardmaxError, ValueError):
    """A data file is missing, broken or not what was expected."""


class MissingExtraError(HardmaxError, ImportError):
    """A required library is not installed; it comes with an optional extra of hardmax."""


class ClusterError(HardmaxError):
    """A cluster does not respond, or cannot run the work."""

"""Former names of public things: they work for one release and warn with the new name. Imports no torch."""

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def load_renamed(
    module: str, names: Mapping[str, str], otherwise: Callable[[str], object] | None = None
) -> Callable[[str], object]:
    """Return the function `__getattr__` (PEP 562) of a module some of whose names have changed.

    Args:
        module: dotted name of the module.
        names: the new name for each former name: `"new"` in the same module, or `"package.module:new"` elsewhere.
        otherwise: `__getattr__` for all other names; by default there are none.

    Example:
        `__getattr__ = load_renamed(__name__, {"gumbel": "draw_gumbel"})` in `hardmax/random.py`.
    """

    def get_attribute(name: str) -> object:
        if name not in names and otherwise is not None:
            return otherwise(name)
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, new = names[name].rpartition(":")
        place = place or module
        _warn(f"{module}.{name}", f"{place}.{new}", stacklevel=3)
        return getattr(import_module(place), new)

    return get_attribute


class RenamedMember:
    """A former name of a member of a class.

    Args:
        new: the new name.

    Example:
        `part = RenamedMember("own_slice")` in the body of a class.
    """

    def __init__(self, new: str) -> None:
        self.new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, instance: object, owner: type) -> Any:
        self.warn(owner, stacklevel=4)
        return getattr(owner if instance is None else instance, self.new)

    def warn(self, owner: type, stacklevel: int) -> None:
        """Warn that a class, or code that uses it, has the former name."""
        _warn(f"{owner.__name__}.{self.old}", f"{owner.__name__}.{self.new}", stacklevel)


def adopt_renamed_members(cls: type) -> None:
    """Give the members that a subclass defines under former names their new names, with a warning.

    Call this in `__init_subclass__`.
    """
    inherited = {name: member for base in cls.__mro__[1:] for name, member in vars(base).items()}
    for name, member in list(vars(cls).items()):
        renamed = inherited.get(name)
        if isinstance(renamed, RenamedMember) and renamed.new not in vars(cls):
            renamed.warn(cls, stacklevel=5)
            setattr(cls, renamed.new, member)


def rename_arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of a function some of whose arguments have changed their names.

    Args:
        names: the new name for each former name.

    Example:
        `@rename_arguments(judge="discriminator")` above `def evaluate(discriminator): ...`.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> T:
            for old in [name for name in options if name in names]:
                _warn(f"{function.__name__}({old}=)", f"{function.__name__}({names[old]}=)", stacklevel=3)
                options[names[old]] = options.pop(old)
            return function(*arguments, **options)

        return call

    return decorate


def _warn(old: str, new: str, stacklevel: int) -> None:
    text = f"{old} is deprecated and will be removed in the next release; use {new}"
    warnings.warn(text, DeprecationWarning, stacklevel)

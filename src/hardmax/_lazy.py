"""Lazy imports: names of a package that are imported on first use (PEP 562)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def load_lazily(
    package: str, homes: Mapping[str, str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package.

    Parts of a package that do not need torch do not import it. No module of the package may have the name of a
    function here: importing the module would hide the function.

    Args:
        package: dotted name of the package.
        homes: the module within the package that defines each name.
        modules: modules of the package that are names of it themselves.
    """

    def get_attribute(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute, lambda: sorted([*homes, *modules])

"""Extension of griffe, which reads our docstrings: a section `Example:` is code, as `Examples:` is."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Rename the section, so that its `>>>` lines are shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change one object's docstring."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"(?m)^(\s*)Example:$", r"\1Examples:", obj.docstring.value)

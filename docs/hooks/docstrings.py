"""Extension of griffe, which reads our docstrings: it shows examples as code, and options as one list."""

import re
from typing import Any

import griffe

COMMANDS = re.compile(r"^Examples?:((?:\s+hardmax .+)+)", re.MULTILINE)  # one on the same line, or a list below it


class ExampleSections(griffe.Extension):
    """Show `>>>` lines and commands as code, for a section `Example:` as for `Examples:`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change one object's docstring."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"(?m)^(\s*)Example:$", r"\1Examples:", obj.docstring.value)
            obj.docstring.value = COMMANDS.sub(_as_code, obj.docstring.value)


def _as_code(match: re.Match[str]) -> str:
    """Return the commands of a docstring, one per line, as a block of code."""
    return "\n".join(["```console", *(f"$ {command.strip()}" for command in match[1].strip().splitlines()), "```"])


class OptionLists(griffe.Extension):
    """Show the options of runs and commands, fields with a docstring each, as one list under the class."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Change the docstring of one class, where its fields are options."""
        if not cls.docstring or not cls.name.endswith(("Config", "Options")):
            return
        lines = []
        for parameter in cls.parameters:
            field = cls.members.get(parameter.name)  # its own, not those of its bases
            if field is None or not field.docstring:
                continue
            match parameter.annotation:
                case griffe.ExprSubscript(canonical_name="Annotated", slice=griffe.ExprTuple(elements=[kind, *_])):
                    parameter.annotation = kind  # the rest is for the command line
            lines.append(f"    {field.name}: {' '.join(field.docstring.value.split())}")
        cls.docstring.value = "\n".join([cls.docstring.value, "", "Args:", *lines])

"""What the discrete latent of a mixed VAE means: attributes that are on or off, or a class."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.data.attributes import find_attribute, find_name
from hardmax.errors import ArgumentError
from hardmax.spaces import AbstractSpace
from hardmax.training.mixed.config import MixedConfig

# The number of a variable, and the value that it is set to.
Setting = Mapping[int, int]


@dataclass(frozen=True)
class Meaning:
    """What the variables of z are called and what they may be.

    Attributes:
        names: one for each variable: the attributes, or one name for what all categories are.
        values: how many values each may take.
        attributes: whether z is a bit for each attribute; else it is one-hot.
        value_names: what the values are called; empty if they have no names.
    """

    names: tuple[str, ...]
    values: int
    attributes: bool
    value_names: tuple[str, ...] = ()

    def find(self, name: str) -> int:
        """Return the number of a variable.

        Raises:
            ArgumentError: there is none of that name; says which ones look like it.
        """
        return find_attribute(name, self.names)

    def read(self, text: str) -> dict[int, int]:
        """Return what a text such as "smiling=1,male=0", "class=3" or "class=sneaker" sets.

        Raises:
            ArgumentError: a variable that does not exist or is set twice, or a value that it cannot take.
        """
        found: dict[int, int] = {}
        for word in split_words(text):
            name, equals, value = (part.strip() for part in word.partition("="))
            if not equals:
                raise ArgumentError(f"expected NAME=VALUE, such as {self.names[0]}=1, got {word!r}")
            variable = self.find(name)
            if variable in found:
                raise ArgumentError(f"{self.names[variable]} is set twice in {text!r}")
            found[variable] = self._value(variable, value)
        return found

    def _value(self, variable: int, text: str) -> int:
        if self.value_names and not text.isdecimal():
            return find_name(text, self.value_names, self.names[variable], "values")
        if not text.isdecimal() or int(text) >= self.values:
            allowed = "0 (off) or 1 (on)" if self.attributes else f"a whole number from 0 to {self.values - 1}"
            raise ArgumentError(f"{self.names[variable]} must be {allowed}, got {text!r}")
        return int(text)

    def put(self, z: Float[Tensor, "N D"], setting: Setting) -> Float[Tensor, "N D"]:
        """Return z with some variables set, for all rows alike."""
        z = z.clone()
        for variable, value in setting.items():
            if self.attributes:
                z[:, variable] = value
            else:
                z.zero_()[:, value] = 1
        return z

    def values_of(self, z: Float[Tensor, "N D"]) -> Int64[Tensor, "N V"]:
        """Return the value of each variable."""
        return z.long() if self.attributes else z.argmax(-1, keepdim=True)

    def tell(self, setting: Setting) -> str:
        """Say what is set to what."""
        return " ".join(f"{self.names[variable]}={self.value_name(value)}" for variable, value in setting.items())

    def value_name(self, value: int) -> str:
        """Return what a value is called: by its number, if it has no name."""
        return self.value_names[value] if value < len(self.value_names) else str(value)


def meaning_of(config: MixedConfig, space: AbstractSpace, said: Mapping[str, Any]) -> Meaning:
    """Return what z means in a run.

    Args:
        config: of the run.
        space: of z.
        said: what its `config.json` says, which has the names of the classes.
    """
    if config.attribute_names:
        return Meaning(config.attribute_names, 2, attributes=True)
    size = int(space.size)
    if not config.labels:  # a category finds a meaning of its own, which need not be a class
        return Meaning(("category",), size, attributes=False)
    names = tuple(said.get("data", {}).get("classes", ()))
    return Meaning(("class",), size, attributes=False, value_names=names if len(names) == size else ())


def split_words(text: str) -> Iterable[str]:
    """Return what stands between commas.

    Raises:
        ArgumentError: nothing does.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ArgumentError(f"expected names with commas between them, got {text!r}")
    return words

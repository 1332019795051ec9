"""Parts of the report of a mixed VAE: the meaning of its discrete latent, and how well it predicts labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from markupsafe import Markup
from torch import Tensor

from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.supervision import Seen, find_known
from hardmax.data.attributes import find_attribute, find_name
from hardmax.errors import ArgumentError
from hardmax.report.curves import draw_heat_map
from hardmax.report.tables import format_percent
from hardmax.spaces import AbstractSpace

# The number of a variable, and the value that it is set to.
Setting = Mapping[int, int]


@dataclass(frozen=True)
class Meaning:
    """Names and values of the variables of z.

    Attributes:
        names: one for each variable: the attributes, or one name for all categories.
        values: the number of values of each variable.
        attributes: whether z is a bit for each attribute; else it is one-hot.
        value_names: the names of the values; empty if they have none.
    """

    names: tuple[str, ...]
    values: int
    attributes: bool
    value_names: tuple[str, ...] = ()

    def find(self, name: str) -> int:
        """Return the number of a variable.

        Raises:
            ArgumentError: an unknown name; the message suggests similar ones.
        """
        return find_attribute(name, self.names)

    def read(self, text: str) -> dict[int, int]:
        """Parse a setting, such as "smiling=1,male=0", "class=3" or "class=sneaker".

        Raises:
            ArgumentError: a variable that does not exist or is set twice, or a value that it cannot take.
        """
        setting: dict[int, int] = {}
        for word in split_words(text):
            name, equals, value = (part.strip() for part in word.partition("="))
            if not equals:
                raise ArgumentError(f"expected NAME=VALUE, such as {self.names[0]}=1, got {word!r}")
            variable = self.find(name)
            if variable in setting:
                raise ArgumentError(f"{self.names[variable]} is set twice in {text!r}")
            setting[variable] = self._value(variable, value)
        return setting

    def _value(self, variable: int, text: str) -> int:
        if self.value_names and not text.isdecimal():
            return find_name(text, self.value_names, self.names[variable], "values")
        if not text.isdecimal() or int(text) >= self.values:
            allowed = "0 (off) or 1 (on)" if self.attributes else f"a whole number from 0 to {self.values - 1}"
            raise ArgumentError(f"{self.names[variable]} must be {allowed}, got {text!r}")
        return int(text)

    def put(self, z: Float[Tensor, "N D"], setting: Setting) -> Float[Tensor, "N D"]:
        """Return z with some variables set to the same values in all rows."""
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

    def format_setting(self, setting: Setting) -> str:
        """Return a setting as text, such as `smiling=1 male=0`."""
        return " ".join(f"{self.names[variable]}={self.value_name(value)}" for variable, value in setting.items())

    def value_name(self, value: int) -> str:
        """Return the name of a value, or its number if it has no name."""
        return self.value_names[value] if value < len(self.value_names) else str(value)


def read_meaning(config: MixedConfig, space: AbstractSpace, said: Mapping[str, Any]) -> Meaning:
    """Return the names and values of z in a run.

    Args:
        config: of the run.
        space: of z.
        said: the contents of its `config.json`, which has the names of the classes.
    """
    if config.attribute_names:
        return Meaning(config.attribute_names, 2, attributes=True)
    size = int(space.size)
    if not config.labels:  # a category learned without labels need not be a class
        return Meaning(("category",), size, attributes=False)
    names = tuple(said.get("data", {}).get("classes", ()))
    return Meaning(("class",), size, attributes=False, value_names=names if len(names) == size else ())


def split_words(text: str) -> Iterable[str]:
    """Return the words between commas.

    Raises:
        ArgumentError: there are no words.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ArgumentError(f"expected names with commas between them, got {text!r}")
    return words


_MOST_VARIED = 3  # attributes: eight columns
_MOST_CLASSES = 20


@dataclass(frozen=True)
class Columns:
    """Settings of the discrete latent, one for each column.

    Attributes:
        variables: which are set, in every column.
        settings: what they are set to in each column.
        heads: the heading of each column: the value of every variable that is set.
        note: what is left out, if anything.
    """

    variables: tuple[int, ...]
    settings: tuple[Setting, ...]
    heads: list[list[str]]
    note: str = ""


def arrange_columns(meaning: Meaning, fixed: Setting | None = None, vary: Sequence[int] | None = None) -> Columns:
    """Return a column for every class, or for every setting of the attributes that vary.

    Args:
        meaning: of the discrete latent.
        fixed: attributes that are the same in all columns, unless they vary.
        vary: attributes that do; None is all that are not fixed, of many the first three.

    Raises:
        ArgumentError: more than three attributes are to vary.
    """
    if not meaning.attributes:
        values = range(min(meaning.values, _MOST_CLASSES))
        left = f"shown are {len(values)} of {meaning.values:,} columns" if meaning.values > len(values) else ""
        heads = [[meaning.value_name(value)] for value in values]
        return Columns((0,), tuple({0: value} for value in values), heads, left)
    fixed, note = fixed or {}, ""
    if vary is None:
        free = [variable for variable in range(len(meaning.names)) if variable not in fixed]
        vary = free[:_MOST_VARIED]
        if len(free) > _MOST_VARIED:
            named = ", ".join(meaning.names[variable] for variable in vary)
            note = (
                f"{len(free)} attributes would make {2 ** len(free):,} columns: {named} vary in {2**_MOST_VARIED}, "
                "the others are drawn for each row; choose others with --vary"
            )
    elif len(vary) > _MOST_VARIED:
        raise ArgumentError(
            f"{len(vary)} attributes to vary make {2 ** len(vary):,} columns, at most {2**_MOST_VARIED} are drawn: "
            f"name at most {_MOST_VARIED}"
        )
    # The first varies fastest: adjacent columns then differ in the attribute that was named first.
    varied = [dict(zip(reversed(vary), bits, strict=True)) for bits in product((0, 1), repeat=len(vary))]
    settings = tuple({**fixed, **setting} for setting in varied)
    variables = (*vary, *(variable for variable in fixed if variable not in vary))
    return Columns(variables, settings, [[str(setting[v]) for v in variables] for setting in settings], note)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for N pictures with V variables each.

    Attributes:
        predicted: the values of the arg max.
        labels: the values that the pictures are labelled with, -1 where not known.
        probability: of the label under the encoder, the share of its samples that is right; 0 where not known.
    """

    predicted: Int64[Tensor, "N V"]
    labels: Int64[Tensor, "N V"]
    probability: Float[Tensor, "N V"]

    @property
    def counted(self) -> Bool[Tensor, "N V"]:
        """Where there is a label."""
        return find_known(self.labels)

    @property
    def right(self) -> Bool[Tensor, "N V"]:
        """Where the arg max is the label."""
        return (self.predicted == self.labels) & self.counted

    def accuracy(self, variable: int | slice = slice(None)) -> float | None:
        """Return the share of labels that the arg max has right; None where there are none."""
        return _share(self.right[:, variable], self.counted[:, variable])

    def accuracy_sampled(self, variable: int | slice = slice(None)) -> float | None:
        """Return the share of labels that samples of the encoder have right in the mean; None where there are none."""
        return _share(self.probability[:, variable], self.counted[:, variable])

    def confusion(self, values: int) -> Int64[Tensor, "classes values"]:
        """Return how many pictures of each class, by row, are classified as each category, by column."""
        labels, predicted = self.labels[self.counted[:, 0], 0], self.predicted[self.counted[:, 0], 0]
        classes = max(values, int(labels.max()) + 1 if len(labels) else 0)
        return (labels * values + predicted).bincount(minlength=classes * values).view(classes, values)


@torch.no_grad()
def predict(model: MixedVAE, meaning: Meaning, pictures: Seen, batch_size: int = 500) -> Predictions:
    """Predict the discrete latent of pictures."""
    best, probabilities = [], []
    for batch in pictures.split(batch_size):
        scores = model.scores(batch.shown)
        best.append(meaning.values_of(model.space.argmax(scores)).cpu())
        q = model.space.marginals(scores).cpu()
        probabilities.append(torch.stack([1 - q, q], -1) if meaning.attributes else q[:, None])
    values, q = torch.cat(best), torch.cat(probabilities)
    labels = torch.full_like(values, -1) if pictures.labels is None else pictures.labels.cpu().view(values.shape)
    # There may be more classes than categories.
    inside = (labels >= 0) & (labels < q.shape[-1])
    probability = q.gather(-1, labels.where(inside, 0)[..., None]).squeeze(-1)
    return Predictions(values, labels, probability.where(inside, 0.0))


def _share(hits: Tensor, counted: Tensor) -> float | None:
    return float(hits.double().sum() / counted.sum()) if counted.any() else None


_MOST_CONFUSED_CLASSES = 20  # in a table; more are drawn


@dataclass(frozen=True)
class Shaded:
    """A table cell: its text, and how dark its background is, from 0 to 1."""

    text: str
    shade: float = 0.0


@dataclass(frozen=True)
class Confusion:
    """A table or a figure of predictions by label, and how to read it.

    Attributes:
        note: how to read it.
        headings: of the columns, that of the names first; empty where there is a figure instead.
        rows: a name, and cells.
        figure: replaces a table that would be too large.
    """

    note: str
    headings: Sequence[str] = ()
    rows: Sequence[tuple[str, Sequence[Shaded]]] = ()
    figure: Markup | None = None


def count_confusion(meaning: Meaning, predictions: Predictions, name: str) -> Confusion | None:
    """Compare predictions with labels; None where no picture has a label.

    Args:
        meaning: of the discrete latent.
        predictions: of the test pictures.
        name: of the figure, unique on the page.
    """
    if not predictions.counted.any():
        return None
    return _attributes(meaning, predictions) if meaning.attributes else _classes(meaning, predictions, name)


def _classes(meaning: Meaning, predictions: Predictions, name: str) -> Confusion:
    counts = predictions.confusion(meaning.values)
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    what = meaning.names[0]
    if len(counts) > _MOST_CONFUSED_CLASSES:
        note = f"How much of each class, by row, is taken for each {what}, by column."
        figure = draw_heat_map(name, note, shares, rows="class", columns=what, scale="share of the class")
        return Confusion(note, figure=figure)
    rows = [
        (
            meaning.value_name(label),
            [Shaded(f"{count:,}" if count else "", share) for count, share in zip(row, part, strict=True)],
        )
        for label, (row, part) in enumerate(zip(counts.tolist(), shares.tolist(), strict=True))
    ]
    note = f"Test pictures of each class, by row, that are taken for each {what}, by column."
    return Confusion(note, ["class", *map(meaning.value_name, range(meaning.values))], rows)


def _attributes(meaning: Meaning, predictions: Predictions) -> Confusion:
    rows = []
    for variable, name in enumerate(meaning.names):
        counted = predictions.counted[:, variable]
        if not counted.any():
            rows.append((name, [Shaded("no labels"), Shaded(""), Shaded(""), Shaded("")]))
            continue
        labels, best = (values[counted, variable].double() for values in (predictions.labels, predictions.predicted))
        parts = (predictions.accuracy(variable), predictions.accuracy_sampled(variable), labels.mean(), best.mean())
        rows.append((name, [Shaded(format_percent(float(part or 0))) for part in parts]))
    note = "How often each attribute of the test pictures is predicted, how often it is on, and how often taken to be."
    return Confusion(note, ["attribute", "right, arg max", "right, sample", "on", "taken to be on"], rows)

"""Names and values of the discrete latent of a mixed VAE, and how well the model predicts labels."""

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
from hardmax.applications.mixed_vae.supervision import PreparedImages, find_labelled
from hardmax.data.attributes import find_attribute, find_name
from hardmax.errors import ArgumentError
from hardmax.report.curves import draw_heat_map
from hardmax.report.tables import format_percent
from hardmax.spaces import AbstractSpace

# The number of a variable, and the value that it is set to.
Setting = Mapping[int, int]


@dataclass(frozen=True)
class LatentNames:
    """Names of the variables of z and of their values.

    Attributes:
        names: name of each variable: the attributes, or one name for all categories.
        value_count: number of values of each variable.
        has_attributes: whether z has a bit for each attribute; else z is one-hot.
        value_names: names of the values; empty if they have none.
    """

    names: tuple[str, ...]
    value_count: int
    has_attributes: bool
    value_names: tuple[str, ...] = ()

    def find_variable(self, name: str) -> int:
        """Return the number of a variable.

        Raises:
            ArgumentError: an unknown name; the message suggests similar ones.
        """
        return find_attribute(name, self.names)

    def parse_setting(self, text: str) -> dict[int, int]:
        """Parse a setting, such as "smiling=1,male=0", "class=3" or "class=sneaker".

        Raises:
            ArgumentError: a variable that does not exist or is set twice, or a value that it cannot take.
        """
        setting: dict[int, int] = {}
        for word in split_words(text):
            name, equals, value = (part.strip() for part in word.partition("="))
            if not equals:
                raise ArgumentError(f"expected NAME=VALUE, such as {self.names[0]}=1, got {word!r}")
            variable = self.find_variable(name)
            if variable in setting:
                raise ArgumentError(f"{self.names[variable]} is set twice in {text!r}")
            setting[variable] = self._parse_value(variable, value)
        return setting

    def _parse_value(self, variable: int, text: str) -> int:
        if self.value_names and not text.isdecimal():
            return find_name(text, self.value_names, self.names[variable], "values")
        if not text.isdecimal() or int(text) >= self.value_count:
            allowed = "0 (off) or 1 (on)" if self.has_attributes else f"a whole number from 0 to {self.value_count - 1}"
            raise ArgumentError(f"{self.names[variable]} must be {allowed}, got {text!r}")
        return int(text)

    def apply_setting(self, z: Float[Tensor, "N D"], setting: Setting) -> Float[Tensor, "N D"]:
        """Return a copy of z with some variables set to the same values in all rows."""
        z = z.clone()
        for variable, value in setting.items():
            if self.has_attributes:
                z[:, variable] = value
            else:
                z.zero_()[:, value] = 1
        return z

    def get_values(self, z: Float[Tensor, "N D"]) -> Int64[Tensor, "N V"]:
        """Return the value of each variable."""
        return z.long() if self.has_attributes else z.argmax(-1, keepdim=True)

    def format_setting(self, setting: Setting) -> str:
        """Return a setting as text, such as `smiling=1 male=0`."""
        return " ".join(f"{self.names[variable]}={self.get_value_name(value)}" for variable, value in setting.items())

    def get_value_name(self, value: int) -> str:
        """Return the name of a value, or its number if it has no name."""
        return self.value_names[value] if value < len(self.value_names) else str(value)


def read_latent_names(config: MixedConfig, space: AbstractSpace, facts: Mapping[str, Any]) -> LatentNames:
    """Return the names of the variables of z and of their values in a run.

    Args:
        config: the options of the run.
        space: the space of z.
        facts: the contents of its `config.json`, with the names of the classes.
    """
    if config.attribute_names:
        return LatentNames(config.attribute_names, 2, has_attributes=True)
    size = int(space.size)
    if not config.labels:  # a category that is learned without labels need not be a class
        return LatentNames(("category",), size, has_attributes=False)
    names = tuple(facts.get("data", {}).get("classes", ()))
    return LatentNames(("class",), size, has_attributes=False, value_names=names if len(names) == size else ())


def split_words(text: str) -> Iterable[str]:
    """Return the words between commas.

    Raises:
        ArgumentError: there are no words.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ArgumentError(f"expected names with commas between them, got {text!r}")
    return words


_MAX_VARIED = 3  # attributes that vary: eight columns
_MAX_CLASSES = 20


@dataclass(frozen=True)
class Columns:
    """Settings of the discrete latent, one for each column of a sheet of samples.

    Attributes:
        variables: the variables that are set in every column.
        settings: their values in each column.
        heads: the heading of each column: the value of each of these variables.
        note: which columns are left out; empty if none.
    """

    variables: tuple[int, ...]
    settings: tuple[Setting, ...]
    heads: list[list[str]]
    note: str = ""


def arrange_columns(latent: LatentNames, fixed: Setting | None = None, vary: Sequence[int] | None = None) -> Columns:
    """Return a column for every class, or for every combination of the attributes that vary.

    Args:
        latent: names of the discrete latent.
        fixed: attributes that have the same value in all columns, unless they are in `vary`.
        vary: attributes that vary; None is all that are not fixed, at most the first three.

    Raises:
        ArgumentError: `vary` has more than three attributes.
    """
    if not latent.has_attributes:
        values = range(min(latent.value_count, _MAX_CLASSES))
        note = f"{len(values)} of {latent.value_count:,} columns are shown" if latent.value_count > len(values) else ""
        heads = [[latent.get_value_name(value)] for value in values]
        return Columns((0,), tuple({0: value} for value in values), heads, note)
    fixed, note = fixed or {}, ""
    if vary is None:
        free = [variable for variable in range(len(latent.names)) if variable not in fixed]
        vary = free[:_MAX_VARIED]
        if len(free) > _MAX_VARIED:
            names = ", ".join(latent.names[variable] for variable in vary)
            note = (
                f"{len(free)} attributes would make {2 ** len(free):,} columns: {names} vary in {2**_MAX_VARIED}, "
                "the other attributes are drawn for each row; choose attributes with --vary"
            )
    elif len(vary) > _MAX_VARIED:
        raise ArgumentError(
            f"{len(vary)} attributes to vary make {2 ** len(vary):,} columns, at most {2**_MAX_VARIED} are possible: "
            f"name at most {_MAX_VARIED} attributes"
        )
    # The first attribute varies fastest, so that adjacent columns differ in it.
    varied = [dict(zip(reversed(vary), bits, strict=True)) for bits in product((0, 1), repeat=len(vary))]
    settings = tuple({**fixed, **setting} for setting in varied)
    variables = (*vary, *(variable for variable in fixed if variable not in vary))
    return Columns(variables, settings, [[str(setting[v]) for v in variables] for setting in settings], note)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for N images with V variables each.

    Attributes:
        predicted: the values of the arg max.
        labels: the labels, -1 where unknown.
        probability: probability of the label under the encoder, which is the share of its samples that are correct; 0
            where the label is unknown.
    """

    predicted: Int64[Tensor, "N V"]
    labels: Int64[Tensor, "N V"]
    probability: Float[Tensor, "N V"]

    @property
    def is_labelled(self) -> Bool[Tensor, "N V"]:
        """Where the label is known."""
        return find_labelled(self.labels)

    @property
    def is_correct(self) -> Bool[Tensor, "N V"]:
        """Where the arg max is the label."""
        return (self.predicted == self.labels) & self.is_labelled

    def accuracy(self, variable: int | slice = slice(None)) -> float | None:
        """Return the share of labels that the arg max predicts; None if there are no labels."""
        return _compute_share(self.is_correct[:, variable], self.is_labelled[:, variable])

    def accuracy_sampled(self, variable: int | slice = slice(None)) -> float | None:
        """Return the expected share of labels that a sample of the encoder predicts; None if there are no labels."""
        return _compute_share(self.probability[:, variable], self.is_labelled[:, variable])

    def count_confusions(self, values: int) -> Int64[Tensor, "classes values"]:
        """Return the number of images of each class (row) that are classified as each category (column)."""
        labels, predicted = self.labels[self.is_labelled[:, 0], 0], self.predicted[self.is_labelled[:, 0], 0]
        classes = max(values, int(labels.max()) + 1 if len(labels) else 0)
        return (labels * values + predicted).bincount(minlength=classes * values).view(classes, values)


@torch.no_grad()
def predict(model: MixedVAE, latent: LatentNames, images: PreparedImages, batch_size: int = 500) -> Predictions:
    """Predict the discrete latent of images."""
    best, probabilities = [], []
    for batch in images.split(batch_size):
        scores = model.scores(batch.encoder_input)
        best.append(latent.get_values(model.space.argmax(scores)).cpu())
        q = model.space.marginals(scores).cpu()
        probabilities.append(torch.stack([1 - q, q], -1) if latent.has_attributes else q[:, None])
    values, q = torch.cat(best), torch.cat(probabilities)
    labels = torch.full_like(values, -1) if images.labels is None else images.labels.cpu().view(values.shape)
    # There may be more classes than categories.
    is_valid = (labels >= 0) & (labels < q.shape[-1])
    probability = q.gather(-1, labels.where(is_valid, 0)[..., None]).squeeze(-1)
    return Predictions(values, labels, probability.where(is_valid, 0.0))


def _compute_share(correct: Tensor, is_labelled: Tensor) -> float | None:
    return float(correct.double().sum() / is_labelled.sum()) if is_labelled.any() else None


_MAX_TABLE_CLASSES = 20  # number of classes in a table; more are shown in a figure


@dataclass(frozen=True)
class ShadedCell:
    """A table cell: its text, and how dark its background is, from 0 to 1."""

    text: str
    shade: float = 0.0


@dataclass(frozen=True)
class Confusion:
    """A table or a figure of predictions by label, and how to read it.

    Attributes:
        note: how to read it.
        headings: headings of the columns, that of the names first; empty if there is a figure.
        rows: the name and the cells of each row.
        figure: replaces a table that would be too large.
    """

    note: str
    headings: Sequence[str] = ()
    rows: Sequence[tuple[str, Sequence[ShadedCell]]] = ()
    figure: Markup | None = None


def make_confusion(latent: LatentNames, predictions: Predictions, name: str) -> Confusion | None:
    """Compare predictions with labels; None where no image has a label.

    Args:
        latent: names of the discrete latent.
        predictions: predictions for the test images.
        name: name of the figure, unique on the page.
    """
    if not predictions.is_labelled.any():
        return None
    if latent.has_attributes:
        return _make_attribute_table(latent, predictions)
    return _make_class_confusion(latent, predictions, name)


def _make_class_confusion(latent: LatentNames, predictions: Predictions, name: str) -> Confusion:
    counts = predictions.count_confusions(latent.value_count)
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    what = latent.names[0]
    if len(counts) > _MAX_TABLE_CLASSES:
        note = f"Share of the test images of each class (row) that are classified as each {what} (column)."
        figure = draw_heat_map(name, note, shares, rows="class", columns=what, scale="share of the class")
        return Confusion(note, figure=figure)
    rows = [
        (
            latent.get_value_name(label),
            [ShadedCell(f"{count:,}" if count else "", share) for count, share in zip(row, part, strict=True)],
        )
        for label, (row, part) in enumerate(zip(counts.tolist(), shares.tolist(), strict=True))
    ]
    note = f"Number of test images of each class (row) that are classified as each {what} (column)."
    return Confusion(note, ["class", *map(latent.get_value_name, range(latent.value_count))], rows)


def _make_attribute_table(latent: LatentNames, predictions: Predictions) -> Confusion:
    rows = []
    for variable, name in enumerate(latent.names):
        is_labelled = predictions.is_labelled[:, variable]
        if not is_labelled.any():
            rows.append((name, [ShadedCell("no labels"), ShadedCell(""), ShadedCell(""), ShadedCell("")]))
            continue
        labels, best = (
            values[is_labelled, variable].double() for values in (predictions.labels, predictions.predicted)
        )
        parts = (predictions.accuracy(variable), predictions.accuracy_sampled(variable), labels.mean(), best.mean())
        rows.append((name, [ShadedCell(format_percent(float(part or 0))) for part in parts]))
    note = "For each attribute, shares of the test images: correct predictions, label on, and predicted to be on."
    return Confusion(note, ["attribute", "correct, arg max", "correct, sample", "on", "predicted on"], rows)

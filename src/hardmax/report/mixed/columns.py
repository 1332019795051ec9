"""The columns of a grid of samples: what each sets the discrete latent to."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hardmax.errors import ArgumentError
from hardmax.report.mixed.meaning import Meaning, Setting

_MOST_VARIED = 3  # attributes: eight columns
_MOST_CLASSES = 20


@dataclass(frozen=True)
class Columns:
    """Settings of the discrete latent.

    Attributes:
        variables: which are set, in every column.
        settings: what they are set to in each column.
        heads: what stands above each column: the value of every variable that is set.
        note: what is left out, if anything.
    """

    variables: tuple[int, ...]
    settings: tuple[Setting, ...]
    heads: list[list[str]]
    note: str = ""


def columns_of(meaning: Meaning, fixed: Setting | None = None, vary: Sequence[int] | None = None) -> Columns:
    """Return a column for every class, or for every setting of the attributes that vary.

    Args:
        meaning: of the discrete latent.
        fixed: attributes that are the same in all columns, unless they vary.
        vary: attributes that do; None is all that are not fixed, of many the first three.

    Raises:
        ArgumentError: more than three attributes are to vary.
    """
    if not meaning.attributes:
        shown = range(min(meaning.values, _MOST_CLASSES))
        left = f"shown are {len(shown)} of {meaning.values:,} columns" if meaning.values > len(shown) else ""
        heads = [[meaning.value_name(value)] for value in shown]
        return Columns((0,), tuple({0: value} for value in shown), heads, left)
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
    # The first varies fastest: columns that stand beside each other then differ in what was named first.
    varied = [dict(zip(reversed(vary), bits, strict=True)) for bits in product((0, 1), repeat=len(vary))]
    settings = tuple({**fixed, **setting} for setting in varied)
    variables = (*vary, *(variable for variable in fixed if variable not in vary))
    return Columns(variables, settings, [[str(setting[v]) for v in variables] for setting in settings], note)

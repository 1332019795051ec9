"""How configurations are told: the command that made a run, what differs between runs, a name for each."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from hardmax.training.config import PLACES, TrainConfig

# Their values say enough without the option's name.
_PLAIN = ("data", "space", "estimator")
# What an option belongs to, by the option that chooses it; elsewhere it changes nothing.
_OWNERS = {
    "space": {
        "categories": ("categorical", "chain"),
        "chosen": ("subset",),
        "supermodular": ("pairwise",),
        "graph": ("pairwise",),
        "solver": ("pairwise",),
    },
    "contrast": {
        "temperature": ("info-nce",),
        "margin": ("triplet",),
    },
    "pairs": {
        "neighbours": ("neighbours",),
    },
    "estimator": {
        "draws": ("conditional",),
        "epsilon": ("auto", "direct"),
        "two_sided": ("auto", "direct"),
        "epsilon_floor": ("auto", "direct"),
        "direct_epochs": ("auto",),
        "tau": ("gumbel-softmax",),
        "tau_floor": ("gumbel-softmax",),
        "hard": ("gumbel-softmax",),
        "baseline": ("reinforce",),
    },
}

Value = str | int | float | bool | None


def option(name: str) -> str:
    """Return the name of an option on the command line, without dashes before it."""
    return name.replace("_", "-")


def shown(value: Value) -> str:
    """Return a value as a reader wants it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def is_default(config: TrainConfig, name: str) -> bool:
    """Whether an option was left at its default."""
    return getattr(config, name) == getattr(type(config), name)


def command(config: TrainConfig) -> str:
    """Return the line that trains like this: the options that are not at their defaults."""
    words = ["hardmax", "train", *([] if config.model == "discrete" else ["--model", config.model])]
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name == "resume" or is_default(config, field.name):
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{option(field.name)}")
        else:
            words += [f"--{option(field.name)}", str(value)]
    return shlex.join(words)


def differing(configs: Sequence[TrainConfig]) -> list[str]:
    """Return the options that are not the same in all of them."""
    names = dict.fromkeys(field.name for config in configs for field in fields(config) if field.name not in PLACES)
    return [name for name in names if len({getattr(config, name, None) for config in configs}) > 1]


def labels(configs: Sequence[TrainConfig], folders: Sequence[str]) -> list[str]:
    """Name each run by what differs from the others, and by its folder where that does not tell them apart."""
    names = sorted(differing(configs), key=lambda name: (name != "data", _distance(name, type(configs[0]))))
    found = [
        ", ".join(_phrase(name, getattr(config, name)) for name in names if _applies(name, config))
        for config in configs
    ]
    counts = Counter(found)
    return [
        label if label and counts[label] == 1 else ", ".join(filter(None, (label, folder)))
        for label, folder in zip(found, folders, strict=True)
    ]


def _distance(name: str, kind: type[TrainConfig]) -> int:
    """Return from how far up an option comes: what a model alone has tells more than what every run has."""
    return next(i for i, one in enumerate(kind.__mro__) if name in vars(one).get("__annotations__", {}))


def _applies(name: str, config: TrainConfig) -> bool:
    """Whether an option plays a part; a model that has no choice of spaces has no option that belongs to some."""
    chosen = {kind: getattr(config, kind) for kind in _OWNERS if hasattr(config, kind)}
    return all(chosen[kind] in _OWNERS[kind].get(name, (chosen[kind],)) for kind in chosen)


def _phrase(name: str, value: Value) -> str:
    if name == "data":
        return Path(str(value)).name
    if name in _PLAIN:
        return str(value)
    if isinstance(value, bool):
        return option(name) if value else f"not {option(name)}"
    return f"{option(name)} {shown(value)}"

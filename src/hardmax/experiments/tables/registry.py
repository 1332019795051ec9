"""Names of the tables and figures, and the search for a declaration by name. No torch here."""

from difflib import get_close_matches
from importlib import import_module

from hardmax.errors import ArgumentError
from hardmax.experiments.tables.declaration import AbstractExperiment

# name: module in this folder, which declares it under its name in capitals
_MODULES = {
    "figure1": "figure1",
    "table1": "table1",
    "figure2": "table1",
    "figure6": "table1",
    "figure3": "figure3",
    "table2": "table2",
    "table2-ablation": "table2",
    "table2-grey": "table2",
    "few-labels": "few_labels",
    "few-labels-ablation": "few_labels",
    "figure4": "figure4",
    "figure5": "figure5",
    "dvae": "dvae",
    "tokenizers": "tokenizers",
    "hashing": "hashing",
    "hashing-retrieval": "hashing_retrieval",
    "completion": "completion",
    "gradient-quality": "gradient_quality",
    "epsilon": "epsilon",
    "bits-200": "few_evaluations",
    "categories-10x30": "few_evaluations",
    "categorical-vae": "categorical_vae",
    "categorical-vae-tuning": "categorical_vae",
    "binary-vae": "binary_vae",
    "sequences": "sequences",
    "sequences-text": "sequences",
    "decisions": "decisions",
    "decisions-maps": "decisions_maps",
    "decisions-denoising": "denoising",
}
NAMES = tuple(_MODULES)


def find_experiment(name: str) -> AbstractExperiment:
    """Return a declaration by its name.

    Raises:
        ArgumentError: an unknown name.
    """
    if name not in NAMES:
        near = get_close_matches(name.lower(), NAMES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(NAMES)}"
        raise ArgumentError(f"no table or figure {name!r}; {hint}")
    return getattr(import_module(f"hardmax.experiments.tables.{_MODULES[name]}"), name.replace("-", "_").upper())

"""Predict, then optimize: networks that predict the scores of a problem, trained for the decisions of its solver."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.decisions.model import DecisionModel as DecisionModel
    from hardmax.applications.decisions.problems import measure_regret as measure_regret

# Loaded when first used, so that the options of this application are read without waiting for torch.
_HOMES = {
    "DecisionModel": "model",
    "measure_regret": "problems",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)

"""Diagnosis of gradients: bias, noise and cost of estimators on your problem, and which one to use.

`diagnose` and `diagnose_elbo` are the entry points. Both run `measure_estimators`, which also works for gradients of
other quantities; see `hardmax.diagnosis.measurement`.
"""

from hardmax._deprecation import load_renamed
from hardmax.diagnosis.advice import Quality, Recommendation, Refusal
from hardmax.diagnosis.candidates import list_candidates
from hardmax.diagnosis.estimates import RepeatedObjective, make_elbo_call, make_expectation_call
from hardmax.diagnosis.gradients import diagnose, diagnose_elbo
from hardmax.diagnosis.measurement import measure_estimators
from hardmax.diagnosis.reference import Reference, enumerate_reference, estimate_reference, make_exact_reference
from hardmax.diagnosis.result import Diagnosis

__all__ = [
    "Diagnosis",
    "Quality",
    "Recommendation",
    "Reference",
    "Refusal",
    "RepeatedObjective",
    "diagnose",
    "diagnose_elbo",
    "enumerate_reference",
    "estimate_reference",
    "list_candidates",
    "make_elbo_call",
    "make_exact_reference",
    "make_expectation_call",
    "measure_estimators",
]

_RENAMED = {
    "Repeated": "RepeatedObjective",
    "bounded": "make_elbo_call",
    "candidates": "list_candidates",
    "enumerated": "enumerate_reference",
    "exactly": "make_exact_reference",
    "expected": "make_expectation_call",
    "measure": "measure_estimators",
    "monte_carlo": "estimate_reference",
}
__getattr__ = load_renamed(__name__, _RENAMED)
globals().pop("candidates", None)  # the module of that name, which would hide the former name

"""How good is a gradient? Bias, noise and cost of estimators on a problem of yours, and which one to take.

`diagnose` and `diagnose_elbo` are the entry points; both are `measure`, the core, with another call. See
`hardmax.diagnosis.measurement` for its interface.
"""

from hardmax.diagnosis.advice import Quality, Recommendation, Refusal
from hardmax.diagnosis.candidates import candidates
from hardmax.diagnosis.estimates import Repeated, bounded, expected
from hardmax.diagnosis.gradients import diagnose, diagnose_elbo
from hardmax.diagnosis.measurement import measure
from hardmax.diagnosis.reference import Reference, enumerated, exactly, monte_carlo
from hardmax.diagnosis.result import Diagnosis

__all__ = [
    "Diagnosis",
    "Quality",
    "Recommendation",
    "Reference",
    "Refusal",
    "Repeated",
    "bounded",
    "candidates",
    "diagnose",
    "diagnose_elbo",
    "enumerated",
    "exactly",
    "expected",
    "measure",
    "monte_carlo",
]

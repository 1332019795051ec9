"""Diagnosis of gradients: bias, noise and cost of estimators on your problem, and which one to use.

`diagnose` and `diagnose_elbo` are the entry points; both run `measure`, with different calls. See
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

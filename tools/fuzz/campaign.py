"""A campaign of numbered cases that run one after the other in this process."""

import time
from typing import Protocol

from tools.fuzz.record import Tally


class Campaign(Protocol):
    """A campaign; its cases are numbered from 0, and a seed and a number determine one.

    Attributes:
        name: name of the campaign.
    """

    name: str

    def run_case(self, tally: Tally, seed: int, case: int) -> None:
        """Run a case, and add its results."""
        ...


def run_campaign(campaign: Campaign, seed: int, seconds: float, *, first: int = 0, most: int | None = None) -> Tally:
    """Run cases until the time is up, or `most` of them, from the case with number `first` on."""
    deadline, tally, case = time.monotonic() + seconds, Tally(campaign.name), first
    while time.monotonic() < deadline and (most is None or tally.cases < most):
        campaign.run_case(tally, seed, case)
        case += 1
    return tally

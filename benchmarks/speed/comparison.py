"""Rows of the table of speed: our code over hand-written code, and how the cost of our code grows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import thread_time

from torch.profiler import ProfilerActivity, profile

Call = Callable[[], object]


@dataclass(frozen=True)
class Comparison:
    """Our code and hand-written code of the same computation.

    Attributes:
        group: heading of the table that the row belongs to.
        name: what is computed, with its sizes.
        make: builds both calls, ours first; called when the row is measured, so that only one row is in memory.
        goal: the largest ratio of processor time that we aim at, or None.
        memory_goal: the largest ratio of peak memory that we aim at, or None where memory is not measured.
        rounds: number of timed calls of each.
    """

    group: str
    name: str
    make: Callable[[], tuple[Call, Call]]
    goal: float | None = None
    memory_goal: float | None = None
    rounds: int = 100


@dataclass(frozen=True)
class Growth:
    """Our code at several sizes: the slope of its processor time on logarithmic axes.

    Attributes:
        group: heading of the table that the row belongs to.
        name: what is computed, and which size grows.
        sizes: the sizes, ascending.
        make: builds the call of one size.
        goal: the largest slope that we aim at.
        rounds: number of timed calls of each size.
    """

    group: str
    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Call]
    goal: float
    rounds: int = 5


def measure_alternately(calls: tuple[Call, ...], rounds: int) -> tuple[float, ...]:
    """Return the median processor seconds of each call; the calls alternate, so that other work slows all equally."""
    seconds: list[list[float]] = [[] for _ in calls]
    for round_number in range(-max(rounds // 10, 2), rounds):
        for call, times in zip(calls, seconds, strict=True):
            start = thread_time()
            call()
            if round_number >= 0:
                times.append(thread_time() - start)
    return tuple(median(times) for times in seconds)


def measure_peak_bytes(call: Call) -> int:
    """Return the maximum memory of tensors during a call, minus the memory before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


def fit_slope(sizes: tuple[int, ...], seconds: tuple[float, ...]) -> float:
    """Return the least-squares slope of log(seconds) over log(sizes)."""
    x, y = [math.log(size) for size in sizes], [math.log(time) for time in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)

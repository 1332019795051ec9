"""Rows of the table of speed: our code over hand-written code, and how the cost of our code grows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import thread_time

from torch.profiler import ProfilerActivity, profile

Call = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """The outcome of one row.

    Attributes:
        group: heading of the table that the row belongs to.
        name: what was computed, with its sizes.
        value: the ratio, or the slope.
        goal: the largest value that we aim at.
        details: the times, and the memory if it was measured.
        memory: ratio of peak memory, or None where it was not measured.
        memory_goal: the largest ratio of memory that we aim at, or None.
    """

    group: str
    name: str
    value: float
    goal: float
    details: str
    memory: float | None = None
    memory_goal: float | None = None

    @property
    def meets_goal(self) -> bool:
        """Whether the value, as printed, is at most the goal, and the memory too."""
        is_lean = self.memory is None or self.memory_goal is None or round(self.memory, 2) <= self.memory_goal
        return round(self.value, 2) <= self.goal and is_lean


@dataclass(frozen=True)
class Comparison:
    """Our code and hand-written code of the same computation.

    Attributes:
        group: heading of the table that the row belongs to.
        name: what is computed, with its sizes.
        make: builds both calls, ours first; called when the row is measured, so that only one row is in memory.
        goal: the largest ratio of processor time that we aim at.
        memory_goal: the largest ratio of peak memory that we aim at, or None where memory is not measured.
        rounds: number of timed calls of each.
    """

    group: str
    name: str
    make: Callable[[], tuple[Call, Call]]
    goal: float
    memory_goal: float | None = None
    rounds: int = 100

    def measure(self) -> Result:
        """Time both calls alternately and return the ratio of their medians."""
        calls = self.make()
        ours, theirs = measure_alternately(calls, self.rounds)
        details, memory = f"{format_seconds(ours)} over {format_seconds(theirs)}", None
        if self.memory_goal is not None:
            peak, their_peak = (measure_peak_bytes(call) for call in calls)
            memory = peak / max(their_peak, 1)
            details += f"; memory {peak / 2**20:.1f} over {their_peak / 2**20:.1f} MB, {memory:.2f}"
        return Result(self.group, self.name, ours / theirs, self.goal, details, memory, self.memory_goal)


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

    def measure(self) -> Result:
        """Time the call at every size and fit the slope."""
        times, peaks = [], []
        for size in self.sizes:
            call = self.make(size)
            times += measure_alternately((call,), self.rounds)
            peaks.append(measure_peak_bytes(call))
        steps = ", ".join(f"{size:,}: {format_seconds(time)}" for size, time in zip(self.sizes, times, strict=True))
        details = f"{steps}; at most {max(peaks) / 2**20:.0f} MB"
        return Result(self.group, self.name, fit_slope(self.sizes, tuple(times)), self.goal, details)


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


def format_seconds(seconds: float) -> str:
    """Return a time in a unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"

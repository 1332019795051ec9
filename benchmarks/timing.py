"""Time functions alternately, so that other work on the machine slows all of them equally."""

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter


def measure_medians(
    functions: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 300,
    warm_up: int = 20,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, float]:
    """Return the median seconds of one call of each function; the functions are called alternately."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for round_number in range(warm_up + rounds):
        for name, function in functions.items():
            start = clock()
            function()
            if round_number >= warm_up:
                seconds[name].append(clock() - start)
    return {name: median(times) for name, times in seconds.items()}

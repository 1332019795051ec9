"""Time of a search over packed codes, compared with a search over floats and one over unpacked bits.

The 100 nearest of 60,000 codes; every code is compared with the query.
"""

import numpy as np
import torch

from benchmarks.timing import measure_medians
from hardmax.applications.hashing.search import find_nearest, pack

COUNT, BITS, NEAREST = 60_000, 64, 100
LIMIT = 10e-3  # seconds of one search


def main() -> bool:
    """Print the medians; return whether a search is within its limit."""
    bits = np.random.default_rng(0).random((COUNT, BITS)) < 0.5
    codes, vectors = pack(bits), torch.from_numpy(bits).float() * 2 - 1
    times = measure_medians(
        {
            f"{BITS} bits, packed": lambda: find_nearest(codes[7], codes, NEAREST),
            f"{BITS} bits, one byte each": lambda: np.argpartition((bits != bits[7]).sum(1), NEAREST)[:NEAREST],
            f"{BITS} floats": lambda: (vectors @ vectors[7]).topk(NEAREST),
        },
        rounds=50,
    )
    packed = times[f"{BITS} bits, packed"]
    print(f"search: the {NEAREST} nearest of {COUNT:,}")
    for name, seconds in times.items():
        print(f"  {name:<24} {1e3 * seconds:8.3f} ms  {seconds / packed:6.2f} of packed")
    return packed < LIMIT

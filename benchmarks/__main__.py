"""Run benchmarks: `python -m benchmarks [NAME ...]`, all of them by default."""

import os
import sys
from importlib import import_module

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise each measurement of memory is logged

import torch

NAMES = [
    *("overhead", "estimators", "training_step", "structured_step", "solvers", "paths", "knapsack", "search"),
    *("router", "quantizer", "linear"),
]

if __name__ == "__main__":
    torch.set_num_threads(1)
    unknown = [name for name in sys.argv[1:] if name not in NAMES]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    failed = False
    for name in sys.argv[1:] or NAMES:
        failed |= not import_module(f"benchmarks.{name}").main()
    sys.exit(failed)

"""Settings of all tests: one thread, as two test processes share two cores; no time limit for hypothesis examples."""

import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("hardmax", deadline=None)
settings.load_profile("hardmax")

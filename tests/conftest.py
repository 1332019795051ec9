"""Two test processes share two cores: one thread each, and no limit of time for an example of a property."""

import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("hardmax", deadline=None)
settings.load_profile("hardmax")

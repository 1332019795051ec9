"""Two test processes share two cores: one thread each."""

import torch

torch.set_num_threads(1)

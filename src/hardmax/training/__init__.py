"""Training: options, learning rate schedule, training loop, checkpoints and log of a run, written to its folder."""

"""Training: configuration, schedule, loop, checkpoints and log, which write a folder with a trained model."""

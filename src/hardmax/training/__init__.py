"""From a configuration to a folder with a trained model: configuration, schedule, loop, checkpoints, log."""

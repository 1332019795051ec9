"""The learning rate by step."""

from hardmax.training.config import TrainConfig


def learning_rate_at(config: TrainConfig, step: int, steps: int) -> float:
    """Return the learning rate of a step of so many."""
    if config.lr_schedule == "constant":
        return config.learning_rate
    return config.learning_rate * min(1.0, 2 * (1 - step / steps))

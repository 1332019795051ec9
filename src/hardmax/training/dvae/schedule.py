"""What changes while a dVAE is trained: the KL's weight, the temperature, and until when codes are moved. No torch."""

import math
from dataclasses import replace

from hardmax.training.dvae.config import DvaeConfig

_RELAXED = ("gumbel-softmax", "gumbel-rao")
_COOLING = 0.75  # part of the run; the rest is trained at the temperature that it ends with
_TENDING = 0.5  # part of the run; what is moved later is not learnt any more


def kl_weight_at(config: DvaeConfig, step: int, steps: int) -> float:
    """Return the weight of the KL in a step of so many."""
    warm = config.kl_warmup * steps
    return config.kl_weight * (min(1.0, step / warm) if warm else 1.0)


def estimated(config: DvaeConfig, steps: int) -> DvaeConfig:
    """Return the configuration with the estimator, and how fast it is annealed, where these were left open."""
    if config.estimator == "auto":
        config = replace(config, estimator="reinmax")
    if config.anneal or config.estimator not in _RELAXED or config.tau_floor >= config.tau:
        return config
    return replace(config, anneal=math.log(config.tau / config.tau_floor) / max(_COOLING * steps, 1.0))


def is_tended(config: DvaeConfig, step: int, steps: int) -> bool:
    """Whether codes that are hardly used are moved before a step; the first step has none yet."""
    return step > 0 and step % config.revive_every == 0 and step < _TENDING * steps and config.revive_below > 0

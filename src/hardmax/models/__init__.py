"""Models that can be trained, saved and loaded."""

from hardmax.models.discrete_vae import DiscreteVAE

__all__ = ["DiscreteVAE"]

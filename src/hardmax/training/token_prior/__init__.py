"""Training of a prior over the tokens of a dVAE."""

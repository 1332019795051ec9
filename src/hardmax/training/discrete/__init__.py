"""Training of a discrete VAE: its options, which estimator is used when, a step, and how good it is."""

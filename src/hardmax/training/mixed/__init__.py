"""Training of a mixed VAE with few labels: its options, the labelled pictures, augmentation, a step, how good it is."""

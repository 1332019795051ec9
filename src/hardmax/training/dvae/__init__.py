"""Training of a dVAE: its options, what changes as it goes on, the care of its codebook, and how good it is."""

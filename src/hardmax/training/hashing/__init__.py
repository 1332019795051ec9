"""Training of an encoder to codes of bits: its options, which pictures belong together, a step, how good it is."""

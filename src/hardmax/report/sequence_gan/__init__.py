"""A page about sequence GANs: what they write, and how much of the language."""

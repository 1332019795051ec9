"""Computations of the gradient lab: the problem that a state describes, its measurements, and the same as Python."""

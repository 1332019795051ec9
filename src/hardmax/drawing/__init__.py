"""How pictures look: one style, logarithmic axes, labels that keep clear of each other."""

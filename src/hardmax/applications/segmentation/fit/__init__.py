"""Fit of the atlas to one scan: alignment, deformation, a personal atlas, labels by the arg max, smoothing."""

"""Fit of the atlas to one scan: alignment, deformation, a personal atlas, the arg max and its smoothing."""

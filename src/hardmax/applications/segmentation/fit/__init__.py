"""The atlas brought to one scan: alignment, deformation, an atlas of its own, the arg max and its smoothing."""

"""How bright labels are: Gaussians of tissues, their EM and its start, and the bias field."""

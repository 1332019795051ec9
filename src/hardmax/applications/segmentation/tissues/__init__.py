"""Intensities of labels: Gaussians of tissues, their EM and its initialisation, and the bias field."""

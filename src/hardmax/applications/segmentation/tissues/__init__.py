"""The intensity model of a scan: Gaussians of tissues, their fit by EM, partial volume, and the bias field."""

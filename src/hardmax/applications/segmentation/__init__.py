"""Segmentation of brain scans with an anatomical prior learned from label maps alone."""

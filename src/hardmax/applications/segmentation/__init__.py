"""Segmentation of brain scans with an anatomical prior that is learned from label maps only."""

"""Scans and label maps: files, geometry, labels, and the agreement of two maps. No torch here."""

"""Scans and label maps: files, geometry, labels, and how well two maps agree. No torch here."""

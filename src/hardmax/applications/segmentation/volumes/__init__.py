"""Scans and label maps: their files, geometry and labels, and the agreement of two maps. No torch here."""

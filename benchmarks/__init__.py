"""Benchmarks of speed, as ratios measured in one run: interleaved calls, medians, one thread."""

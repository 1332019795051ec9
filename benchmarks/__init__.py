"""Speed, as ratios in one run: interleaved, medians, one thread."""

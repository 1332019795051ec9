"""Our code beside the leanest hand-written PyTorch of the same computation, in one table of ratios."""

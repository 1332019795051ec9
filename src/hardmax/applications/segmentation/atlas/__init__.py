"""The atlas, which gives the probability of each structure at each position: transforms, alignment, averaging."""

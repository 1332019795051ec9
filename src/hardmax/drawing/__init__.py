"""Figures and images: the plot style, logarithmic axes, SVG, grids of images, labels that do not overlap."""

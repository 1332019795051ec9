"""Metrics of the predictions and images of a model; they need no training of the model itself."""

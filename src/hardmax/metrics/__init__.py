"""Metrics of the predictions and images of a trained model."""

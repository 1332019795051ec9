"""Training of completion models."""

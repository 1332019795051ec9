"""What commands do for runs of completion models."""

"""What a page tells of completion models."""

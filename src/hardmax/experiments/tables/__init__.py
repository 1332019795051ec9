"""The tables and figures: one declaration each, with the published numbers next to it."""

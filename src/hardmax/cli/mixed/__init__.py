"""What commands do for runs of mixed VAEs."""

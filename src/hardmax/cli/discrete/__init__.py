"""What commands do for runs of discrete VAEs."""

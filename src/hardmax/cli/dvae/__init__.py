"""What commands do for runs of dVAEs."""

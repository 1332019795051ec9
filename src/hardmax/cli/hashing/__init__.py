"""What commands do for runs of hash encoders."""

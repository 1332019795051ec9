"""What commands do for runs of sequence GANs."""

"""What a page tells of discrete VAEs: how the codes are used, what they mean, reconstructions, samples."""

"""What is told and shown of mixed VAEs: what their discrete latent means, samples, reconstructions, predictions."""

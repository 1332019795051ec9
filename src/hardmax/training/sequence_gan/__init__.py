"""Training of a sequence GAN: its options, the turns of its two players, and how well it knows the language."""

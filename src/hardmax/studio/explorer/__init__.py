"""The latent explorer: states in links, and the controls and views of applications as elements of a page."""

"""The pages of the studio, one module each; `hardmax.studio.registry` lists them."""

"""The learned method: a VAE of label maps, and an encoder of scans that is trained with the VAE's decoder frozen."""

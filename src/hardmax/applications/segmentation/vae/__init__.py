"""The method of the document: a VAE of label maps, and an encoder of scans trained with its decoder frozen."""

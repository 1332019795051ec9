"""A page in the formats that a reader may want, one file each."""

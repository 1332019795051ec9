"""The atlas: spatial transforms, alignment of label maps, the location prior."""

"""What the label maps say of a place: maps of space onto space, maps brought to one place, the location prior."""

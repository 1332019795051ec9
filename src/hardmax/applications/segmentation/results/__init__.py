"""Results of segmented scans: images, tables, a page, and warning signs."""

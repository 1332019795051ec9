"""Results of segmented scans: quality images, tables, an HTML page, and warnings."""

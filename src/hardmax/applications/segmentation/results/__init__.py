"""What is written about segmented scans: pictures, tables, a page, and signs not to trust them."""

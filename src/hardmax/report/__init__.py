"""From runs' folders to one self-contained HTML page: reading, figures, pictures, the page."""

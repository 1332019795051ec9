"""Pages of tables and figures: Markdown, LaTeX, HTML and SVG from rows."""

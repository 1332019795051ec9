"""Reports: one self-contained HTML page about one or several runs, with tables, figures and images."""

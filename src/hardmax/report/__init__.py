"""Reports: one self-contained HTML page about the runs in one or several folders, with figures and pictures."""

"""One file, one table or figure: what is trained, and the runner that trains and renders it."""

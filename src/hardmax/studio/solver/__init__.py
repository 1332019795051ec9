"""The solver lab without its page: problems on grids, cuts of images, and the programs that compute the same."""

"""The page of runs: finding and reading them while they train, curves of several, a diagnosis."""

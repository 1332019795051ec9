"""Who makes the runs: this process, several on this machine, or a cluster."""

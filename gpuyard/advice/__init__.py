"""Which scheduler suits a cluster and its jobs: every one that runs, on the trace as it is."""

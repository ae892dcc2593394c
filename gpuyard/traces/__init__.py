"""Programs that make and compare workloads."""

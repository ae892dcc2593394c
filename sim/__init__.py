"""Cluster simulator: topology, physics, event kernel, traces, heuristic schedulers, metrics."""

"""Metrics: pure functions of a `Run`, and intervals over repeated runs."""

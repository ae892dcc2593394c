"""Metrics of a `Run`, intervals over repeated ones, the folder of a run, tables, figures."""

"""Workloads made and compared; interference measured, fitted, judged."""

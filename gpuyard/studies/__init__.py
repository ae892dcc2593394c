"""Interference: measuring, fitting, judging."""

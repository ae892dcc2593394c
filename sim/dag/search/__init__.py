"""Searches for plans: all ask the same meter for evaluations and get the same start plans."""

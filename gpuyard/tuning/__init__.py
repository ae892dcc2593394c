"""Weights and rules chosen on training windows."""

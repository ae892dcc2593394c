"""Trained policies in the form of schedulers."""

"""Turns and packs of the Gandiva scheduler."""

"""Measuring co-location on this machine: real training loops, alone and together."""

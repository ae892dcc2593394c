"""Immutable cluster topologies and their division into partitions."""

"""Proximity-DRL: first come, first served; a network picks GPUs (docs/policies/topdrl.md)."""

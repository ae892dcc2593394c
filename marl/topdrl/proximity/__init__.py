"""Proximity-DRL: first come, first served; a network picks the GPUs one by one (docs/topdrl.md)."""

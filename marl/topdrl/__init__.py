"""TopDRL: a network picks a waiting job, the closest GPUs take it (docs/policies/topdrl.md)."""

"""Warm start, the training loop's bookkeeping, policy files."""

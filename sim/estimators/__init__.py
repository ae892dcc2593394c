"""Duration estimators that need no learning: none, oracle, noisy oracle."""

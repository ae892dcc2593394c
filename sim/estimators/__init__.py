"""Duration estimators without a fit: none, oracle, noisy, and two that look up earlier runs."""

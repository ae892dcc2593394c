"""What every program shares: configuration, errors, progress, the start and the end of a run."""

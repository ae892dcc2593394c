"""Multi-agent environments, policies, learned schedulers and their training."""

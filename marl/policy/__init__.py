"""The policy network: torch only, no RL framework."""

"""The scheduling game as a PettingZoo parallel environment."""

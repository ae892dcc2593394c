"""The world of agents: what they see, whose turn it is, what they may do; as an environment."""

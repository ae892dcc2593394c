"""Cluster state to embeddings: a hierarchical graph neural network that knows nothing of RL."""

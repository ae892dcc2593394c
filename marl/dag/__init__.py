"""The learned plan generator of WORL-RTGS: what it sees, its network, its environment."""

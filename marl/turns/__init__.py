"""Turns of agents: whose it is, what it may do, and what happens until the next one."""

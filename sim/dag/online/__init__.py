"""The planner for a cluster where workflows come and go: gangs, running tasks, servers."""

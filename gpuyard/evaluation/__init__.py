"""From a configuration to a cluster, jobs and schedulers; several of them on paired windows."""

"""From a resolved configuration to a cluster, jobs and schedulers."""

"""When a job may join others on their GPUs."""

"""View to observation and action to decision: one code path for training and deployment."""

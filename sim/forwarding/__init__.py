"""Which partition takes a job, one rule a file."""

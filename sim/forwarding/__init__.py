"""Which partition takes a job."""

"""Co-location beliefs that follow what running jobs show."""

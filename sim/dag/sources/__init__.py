"""Where DAGs come from: readers of public files, and generators."""

"""Plans for one DAG on heterogeneous GPUs: problem, evaluators, list schedulers, search."""

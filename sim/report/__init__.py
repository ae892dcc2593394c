"""Reports: the folder of a run, comparison tables and figures."""

"""Queue schedulers as one compiled loop; the Python `decide` of each stays the contract."""

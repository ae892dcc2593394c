"""The pair-score network in compiled code, from the weights of the torch module."""

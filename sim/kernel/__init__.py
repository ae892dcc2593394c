"""The event kernel: arrays in, arrays changed in place, compiled by numba."""

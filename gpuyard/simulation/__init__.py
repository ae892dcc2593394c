"""One scheduler on one trace, and stepping through what it did."""

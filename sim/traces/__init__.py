"""Job traces: readers, windows, preparation, and the calibrated generator."""

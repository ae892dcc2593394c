"""Readers of co-location measurements: each file format to `CoRows` and `SoloProfiles`."""

"""Models of normalised speed, one a file, all behind `interference.models.protocol`."""

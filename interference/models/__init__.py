"""Models of normalised speed, all behind `linear.SpeedModel`."""

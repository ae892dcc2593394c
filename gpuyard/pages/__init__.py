"""One page a run: `report.html`, which opens with a double click."""

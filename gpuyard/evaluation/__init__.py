"""Several schedulers on paired windows, and runs side by side."""

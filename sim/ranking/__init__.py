"""What tells which job comes first, beyond a column of the view."""

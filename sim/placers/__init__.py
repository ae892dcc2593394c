"""Placement rules, one a file; none imports another."""

"""Scheduling orders, one a file; none imports another."""

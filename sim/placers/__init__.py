"""Placement rules; no module of them imports another."""

"""Placement rules, and the steps that they, sharing rules and schedulers share."""

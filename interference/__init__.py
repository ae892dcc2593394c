"""Learned co-location models: from measured pairs to a table of predicted slow-downs."""

"""Answers over HTTP: given this cluster state and queue, what next?"""

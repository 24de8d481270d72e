"""Workloads: how many rows fall due when, and what is in them."""

"""Recorded worlds, and deciding them again."""

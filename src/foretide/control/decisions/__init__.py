"""Decisions: what was decided, why, and what it achieved."""

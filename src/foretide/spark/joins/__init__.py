"""The salted stream-stream join."""

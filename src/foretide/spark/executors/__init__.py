"""Executors: listing, resizing, exclusion."""

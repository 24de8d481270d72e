"""Sinks: how Spark writes to each kind, and reads it back."""

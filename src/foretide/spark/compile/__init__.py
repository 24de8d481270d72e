"""Compiles a topology to one DataFrame."""

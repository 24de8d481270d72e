"""Skewed stream joins: statistics in, one plan out. Pure."""

"""Sampling, alarms and Prometheus."""

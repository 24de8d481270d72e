"""Simulates pipelines and micro-batches. Pure."""

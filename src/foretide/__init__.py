"""Predictive control for streaming pipelines on Apache Spark."""

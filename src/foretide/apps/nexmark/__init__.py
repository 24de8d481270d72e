"""Nexmark, the benchmark of an auction site: its queries on plain Spark and under control, and the truth of each."""

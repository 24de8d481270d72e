"""Benchmarks: `make bench`, or `python -m benchmarks engine --quick`. Both sides of a comparison run in one process."""

"""What the models are compared with; only benchmarks use it."""

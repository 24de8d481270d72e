"""Queueing theory: Erlang, open networks of operators, micro-batches, and model files."""

"""Routed edges: the exchange, its groupings and the live route table."""

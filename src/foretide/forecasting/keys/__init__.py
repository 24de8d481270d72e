"""Forecasters of the load of join keys."""

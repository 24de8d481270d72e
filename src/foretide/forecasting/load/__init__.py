"""Forecasters of load."""

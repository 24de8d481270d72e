"""Plots, and reports of runs as HTML."""

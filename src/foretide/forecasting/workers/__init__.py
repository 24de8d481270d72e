"""Nets that forecast the performance of workers."""

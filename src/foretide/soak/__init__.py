"""Fault campaigns: a pipeline is disturbed at random, and what it has written is compared row by row."""

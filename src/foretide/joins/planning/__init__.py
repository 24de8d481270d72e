"""Planners of skewed joins: Aj-Stream's and ours."""

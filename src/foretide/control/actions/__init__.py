"""Actions: what the loop can change, what it costs, and how it is undone."""

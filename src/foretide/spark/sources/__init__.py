"""Sources: one file a kind."""

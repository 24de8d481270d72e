"""Publishing join plans, live."""

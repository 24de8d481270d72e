"""Commands that steer running pipelines."""

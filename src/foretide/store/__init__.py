"""Where metrics are kept: SQLite or PostgreSQL, a writer that never makes the pipeline wait, export for training."""

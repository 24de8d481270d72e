"""The store of metrics, alarms and decisions: SQLite or PostgreSQL, a writer that never blocks, export for training."""

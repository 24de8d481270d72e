"""Sources: how Spark reads each kind, and what it tells about a batch."""

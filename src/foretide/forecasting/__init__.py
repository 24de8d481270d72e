"""Models that forecast load, worker performance and hot keys. Imports no Spark."""

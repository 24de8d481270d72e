"""What will be: load, worker performance and hot keys, and which forecast to trust. Knows no Spark."""

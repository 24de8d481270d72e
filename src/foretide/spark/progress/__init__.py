"""What Spark reports of a query, as BatchReport."""

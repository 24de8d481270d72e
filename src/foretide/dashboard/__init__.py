"""The dashboard and the REST API: one process of their own, which reads files and the store. No Spark."""

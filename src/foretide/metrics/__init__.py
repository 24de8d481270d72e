"""What is measured, as values: batches, edges, and the audit of every edge. Pure."""

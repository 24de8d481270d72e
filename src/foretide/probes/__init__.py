"""Metrics of workers and machines, read from outside: /proc, counters of JVMs, and node_exporter.

Nothing here touches Spark or runs inside a worker, so measuring cannot stop a query. What cannot be read has no sample.
"""

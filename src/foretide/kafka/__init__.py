"""Load for Kafka topics, and the latency of what a query makes of it, each in a process of its own."""

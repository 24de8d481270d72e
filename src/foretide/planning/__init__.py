"""Plans processors, replicas and tuples in flight."""

"""Planning: how many processors, replicas and tuples in flight."""

"""A running topology: query, follower, supervision."""

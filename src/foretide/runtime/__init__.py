"""Running pipelines: following a query batch by batch, supervising it, and telling other terminals where it is."""

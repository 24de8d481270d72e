"""Routes as values: rings of identifiers, the table that holds them, and load-aware assignment. Pure."""

"""Topologies as values: spouts, bolts, groupings, sources and sinks; validation; drawing. Pure."""

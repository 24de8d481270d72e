"""All that touches Spark: compiling topologies, live routes, sources, sinks, and reading back what Spark did."""

"""Settings: sections, loading, provenance and reference. No Spark."""

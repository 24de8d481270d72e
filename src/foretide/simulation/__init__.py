"""One simulator of pipelines and micro-batches. Pure."""

"""Settings of a pipeline and its control loop: by flags, environment and file, in this order, over the defaults."""

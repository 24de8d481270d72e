"""Generated data that benchmarks and tests measure forecasts on."""

"""Live forecasts; models are fitted in other processes."""

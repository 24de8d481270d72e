"""What is shown of a pipeline, as values ready to show: for the API, the dashboard and reports. Pure."""

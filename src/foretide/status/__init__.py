"""The read model of running pipelines, for the command line and a dashboard. No Spark."""

"""The control folder: files that Spark, the control loop and people share."""

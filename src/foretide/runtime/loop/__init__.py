"""The control loop, live."""

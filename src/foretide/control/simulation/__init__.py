"""The control loop on a simulated query."""

"""Real-time mode: tasks that live as long as a batch, steered and measured while they run."""

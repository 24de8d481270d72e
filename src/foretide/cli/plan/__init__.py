"""Commands that plan and simulate."""

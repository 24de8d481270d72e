"""Commands that show what was measured and decided."""

"""What one control cycle reads."""

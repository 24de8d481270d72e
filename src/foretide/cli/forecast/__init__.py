"""Commands that train and evaluate forecasters."""

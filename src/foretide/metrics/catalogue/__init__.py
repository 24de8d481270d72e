"""The catalogue of metrics: name, unit and meaning of each."""

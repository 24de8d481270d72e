"""Policies: what one would like to do, each from its own point of view. Guards and arbitration come after."""

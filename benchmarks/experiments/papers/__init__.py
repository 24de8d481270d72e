"""One experiment a file. Listing them imports them all, so they import Spark and models inside their functions."""

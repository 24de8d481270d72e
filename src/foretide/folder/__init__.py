"""The control folder: where routes, limits and what is in force are kept, on a disk or in an object store."""

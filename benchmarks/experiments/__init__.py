"""Experiments of the papers on Foretide, each with its rivals: `foretide bench`, or `make experiments` for all of them.

An experiment is a file in `papers/` with a value `EXPERIMENT`; its name is that of the file. `experiment` has the
types, `runner` repeats the sides, `statistics` compares them, `outcome` is what was found, `page` the report.
"""

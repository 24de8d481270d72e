"""Some parts of `benchmarks.scaling` alone."""

from __future__ import annotations

import argparse

from rich.console import Console

from benchmarks.report import show
from benchmarks.scaling import PARTS, tables


def main() -> None:
    """Measure the named parts, and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, choices=PARTS, help="which ones; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller sizes")
    options = parser.parse_args()
    show(Console(), tables(options.parts, quick=options.quick))


if __name__ == "__main__":
    main()

"""A part of the comparison with other engines, or some of its sides: `python -m benchmarks.peers --help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers import PARTS, run
from benchmarks.peers.sides import NAMES
from benchmarks.report import markdown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="which tables; all by default")
    parser.add_argument("--side", choices=NAMES, action="append", help="which sides; all by default")
    parser.add_argument("--quick", action="store_true", help="one short run of each side")
    parser.add_argument("--folder", type=Path, default=Path("artifacts"), help="where the figures go")
    options = parser.parse_args()
    parts, sides = options.part or PARTS, options.side or ()
    print(markdown(run(quick=options.quick, folder=options.folder, parts=parts, only=sides)))


if __name__ == "__main__":
    main()

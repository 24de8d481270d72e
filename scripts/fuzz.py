"""Gives every command odd input and prints what went wrong: `scripts/fuzz.py [--cases N] [--seed S]`."""  # noqa: INP001

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]


def main() -> int:
    """Run the cases; 1 if one of them went wrong."""
    from cli.fuzz_cases import REFUSED_BEFORE_SPARK, Case, cases  # noqa: PLC0415 - after the path is set
    from cli.fuzzing import Fuzzer, report  # noqa: PLC0415 - after the path is set

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))  # noqa: S311 - no secret
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foretide-fuzz-") as folder:
        fuzzer = Fuzzer(Path(folder))
        chosen = cases(options.seed, options.cases)
        chosen += [Case("refused before Spark", tuple(argv)) for argv in REFUSED_BEFORE_SPARK]
        outcomes = [fuzzer.run(case) for case in chosen]
    early = [each for each in outcomes if each.started_spark and each.case.group == "refused before Spark"]
    print(report(outcomes))  # noqa: T201 - a script
    for each in early:
        print(f"Spark started: {each.case}")  # noqa: T201 - a script
    print(f"seed {options.seed}")  # noqa: T201 - a script
    return int(any(each.wrong or each.hung or each.unexpected for each in outcomes) or bool(early))


if __name__ == "__main__":
    sys.exit(main())

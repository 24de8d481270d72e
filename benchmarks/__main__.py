"""Runs the benchmarks that are named (all of them by default), prints a table each, and writes JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from pathlib import Path

from rich.console import Console

from benchmarks.report import show

ALL = (
    "engine",
    "monitoring",
    "control_cost",
    "dashboard",
    "batch_cost",
    "store_growth",
    "scaling",
    "forecasting",
    "forecasting_counts",
    "forecasting_nets",
    "workers",
    "planning",
    "simulation",
    "control",
    "live_load",
    "hold_target",
    "slow_worker",
    "announced_live",
    "joins",
    "joins_moving",
    "nexmark",
    "real_time",
    "real_time_changes",
    "real_time_processors",
    "real_time_slow_worker",
    "peers",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", default=ALL, help=f"which ones: {', '.join(ALL)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    parser.add_argument("--json", type=Path, default=Path("artifacts/bench.json"), help="where the figures go")
    options = parser.parse_args()
    console = Console()
    figures = {"machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"}
    for name in (given.replace("-", "_") for given in options.names):
        console.rule(name)
        figures[name] = importlib.import_module(f"benchmarks.{name}").run(
            quick=options.quick, folder=options.json.parent
        )
        show(console, figures[name])
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    console.print(f"figures: {options.json}")


if __name__ == "__main__":
    main()

"""Counts the calls from one module of Foretide into another that a decision takes, live. Needs Spark.

A hop is a distinct pair of calling and called module; a change is a hop into another package. A query with one routed
edge runs under a policy that splits the edge once; counted is what happens from the first batch after the loop was
attached until the split is in force and was explained, without sampling and forecasts, which have threads of their own.

usage: python scripts/hops.py
"""  # noqa: INP001

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import foretide as ft

LEFT_OUT = ("sampl", "forecast", "surroundings", "seer")
"""Threads that work beside a decision."""

Hop = tuple[str, str]


class Tracer:
    """Notes calls between modules of Foretide, by thread."""

    def __init__(self) -> None:
        self.hops: dict[str, set[Hop]] = defaultdict(set)
        self.on = False

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """Note a call; Python's profiling hook."""
        if not self.on or event != "call" or frame.f_back is None:
            return
        called = frame.f_globals.get("__name__", "")
        if not called.startswith("foretide.") or frame.f_code.co_name == "<module>":
            return
        caller = self._caller(frame.f_back)
        if caller and caller != called:
            self.hops[threading.current_thread().name].add((caller, called))

    def _caller(self, frame: Any) -> str | None:
        """The module of Foretide that called, with what lies in between (dataclasses, locks) left out."""
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if name.startswith("foretide."):
                return name
            frame = frame.f_back
        return None


@dataclass(frozen=True)
class SplitOnce:
    """Splits an edge unevenly, once."""

    name: str = "split_once"

    def start(self) -> None:
        """No state."""

    def wish(self, state: None, world: ft.World) -> tuple[None, list[ft.Wish]]:
        """Wish for the split until it is in force."""
        action = ft.SetSplit("work", (1.0, 3.0))
        wishes = [] if action.in_force(world.observed) else [ft.Wish(self.name, action, "to count the calls")]
        return state, wishes


def package(module: str) -> str:
    """The package directly below foretide that a module lies in."""
    return module.split(".")[1]


def report(name: str, hops: set[Hop]) -> None:
    """Print one line."""
    changes = sum(package(caller) != package(called) for caller, called in hops)
    modules = {module for hop in hops for module in hop}
    print(f"{name:42} hops {len(hops):4}  changes of package {changes:4}  modules {len(modules):4}")  # noqa: T201


def main() -> None:
    """Run the query, and print the counts."""
    spark = ft.session("local[2]", "hops", {"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    folder = tempfile.mkdtemp(prefix="foretide-hops-")
    source = ft.Replay(_rows(), ft.Curve.constant(200, 600))
    work = ft.Bolt("work", lambda df: df.where("value >= 0"), [ft.From("numbers", ft.Dynamic(by=("row",)))], pool=2)
    topology = ft.Topology("hops", [ft.Spout("numbers", source)], [work])
    tracer = Tracer()
    threading.setprofile(tracer)
    pipeline = ft.submit(spark, topology, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint")
    while pipeline.last_batch < 1:
        time.sleep(0.1)
    controller = ft.control(pipeline, [SplitOnce()], ft.Latency(p99="60s"))
    tracer.on = True
    while not any(decision.chosen for decision in controller.decisions):
        time.sleep(0.1)
    last = pipeline.last_batch
    while pipeline.last_batch < last + 5:
        time.sleep(0.1)
    sys.setprofile(tracer)
    _explain(pipeline)
    sys.setprofile(None)
    tracer.on = False
    pipeline.stop()
    spark.stop()
    kept = {name: hops for name, hops in tracer.hops.items() if not any(word in name for word in LEFT_OUT)}
    for name, hops in sorted(kept.items()):
        report(name, hops)
    report("a decision", set().union(*kept.values()))


def _rows() -> Any:
    from foretide.workloads.keyed import Keyed  # noqa: PLC0415

    return Keyed(seed=1)


def _explain(pipeline: Any) -> None:
    from typer.testing import CliRunner  # noqa: PLC0415

    from foretide.cli import app  # noqa: PLC0415

    CliRunner().invoke(app, ["explain", "1", "--app", pipeline.topology.name])


if __name__ == "__main__":
    main()

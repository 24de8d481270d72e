"""The control loop on made-up batches: what following a batch, judging alarms and deciding cost, at any size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.scaling.growth import gathered
from benchmarks.scaling.worlds import BEGIN, MadeUp, rest_tasks
from foretide.control.history import RecordedWorld
from foretide.control.step import step
from foretide.control.world.setup import Target
from foretide.metrics.alarm_rules import DEFAULT_RULES, AlarmState, judge
from foretide.metrics.batch import EdgeFlow
from foretide.metrics.from_batch import worker_samples
from foretide.routing.ring import DEFAULT_SLOTS
from foretide.routing.table import RouteTable
from foretide.settings.settings import Settings
from foretide.spark.progress.plan_graph import Exchange, SparkStage
from foretide.spark.progress.tasks import attribute, read_task, with_tasks
from foretide.topology.shape import PlanShape

TASKS, EXECUTORS = [10, 100, 1_000, 10_000], [2, 16, 100, 1_000]
AT_TASKS, AT_EXECUTORS = 10_000, 100
GOAL_MS = 50.0
SLOTS_A_TASK = 4
DECISION = "decision: control.step"


def figures(*, quick: bool) -> dict[str, Any]:
    """All tables of the loop on made-up batches: CPU milliseconds, medians of some cycles."""
    cycles = 3 if quick else 9
    found: dict[str, Any] = {}
    for name, options in (("calm", {}), ("a tenth of the executors slow", {"slow": True})):
        by_tasks = gathered(TASKS, lambda size, given=options: of_cycle(MadeUp(size, AT_EXECUTORS, **given), cycles))
        found[f"CPU ms a batch by tasks, {AT_EXECUTORS} executors, {name}, made up"] = by_tasks
        by_size = gathered(EXECUTORS, lambda size, given=options: of_cycle(MadeUp(AT_TASKS, size, **given), cycles))
        found[f"CPU ms a batch by executors, {AT_TASKS:,} tasks, {name}, made up"] = by_size
    real_time = gathered(TASKS, lambda size: of_cycle(MadeUp(size, AT_EXECUTORS, slow=True, stays=True), cycles))
    found[f"CPU ms a batch by tasks, {AT_EXECUTORS} executors, a tenth slow, tasks stay, made up"] = real_time
    real_time = gathered(EXECUTORS, lambda size: of_cycle(MadeUp(AT_TASKS, size, slow=True, stays=True), cycles))
    found[f"CPU ms a batch by executors, {AT_TASKS:,} tasks, a tenth slow, tasks stay, made up"] = real_time
    found["CPU ms of routes and REST answers by tasks, made up"] = gathered(TASKS, partial(of_parts, cycles=cycles))
    found[f"the loop at {AT_TASKS:,} tasks (goal: below {GOAL_MS:g} ms)"] = _goal(found)
    return found


def _goal(found: dict[str, Any]) -> str:
    """The longest decision at the largest number of tasks, over all tables."""
    column = f"{AT_TASKS:,}"
    costs = [row for table in found.values() for row in table if row["cost"] == DECISION]
    longest = max(cost for row in costs for size, cost in row.items() if size == column or size in _names(EXECUTORS))
    return f"{longest:.1f} ms at most: {'reached' if longest < GOAL_MS else 'MISSED'}"


def _names(sizes: list[int]) -> set[str]:
    return {f"{size:,}" for size in sizes}


def of_cycle(made: MadeUp, cycles: int) -> dict[str, float]:
    """CPU milliseconds of each part of a cycle, the first ones aside."""
    control = Settings().for_query(Target()).to_control()
    state, alarms = control.start(), AlarmState()
    spent: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        result, cost = cpu_ms(work)
        spent.setdefault(name, []).append(cost)
        return result

    for batch in range(2 + cycles):
        report = made.report(batch)
        samples = timed("samples of a batch", partial(made.samples, report))
        timed("newest values", partial(made.latest.put, samples))
        timed("samples of the workers", partial(worker_samples, report.tasks or (), 1.0, BEGIN + batch))
        snapshot = timed("snapshot", partial(made.latest.snapshot, BEGIN + batch))
        alarms, *_ = timed("alarm rules", partial(judge, alarms, snapshot, DEFAULT_RULES))
        world = made.world(batch)
        state, _ = timed(DECISION, partial(step, control, state, world))
        recorded = RecordedWorld(world.at, world.setup, world.target, world.observed, ("bypass",))
        timed("comparing what is recorded", partial(lambda one, other: one == other, recorded, recorded))
    return {name: statistics.median(costs[2:]) for name, costs in spent.items()}


def of_parts(tasks: int, cycles: int) -> dict[str, float]:
    """What reading a stage's tasks, giving them to operators, and a new split of an edge cost."""
    listed = rest_tasks(tasks, AT_EXECUTORS)
    runs = [read_task(task, BEGIN) for task in listed]
    flow = EdgeFlow(tasks * 1000, tasks * 1000)
    stage = SparkStage((1, 0), ((Exchange("count", tasks, 1, flow, (0, 0), (1, 0)),),), None)
    half = EdgeFlow(tasks // 2 * 1000, tasks // 2 * 1000)
    parts = tuple((Exchange(name, tasks // 2, at, half, (0, 0), (1, 0)),) for at, name in enumerate(("a", "b")))
    hidden = SparkStage((1, 0), (*parts, (Exchange("c", 1, 3, EdgeFlow(7, 7), (0, 0), (1, 0)),)), None)
    table = RouteTable().declare("count", tasks, slots=max(DEFAULT_SLOTS, SLOTS_A_TASK * tasks))
    weights = [1.0 + task % 3 for task in range(tasks)]
    works: dict[str, Callable[[], Any]] = {
        "reading the tasks": lambda: [read_task(task, BEGIN) for task in listed],
        "their operators": lambda: attribute([(stage, runs)], PlanShape()),
        "their operators, sizes uncertain": lambda: attribute([(hidden, runs)], PlanShape()),
        "rows by task": lambda: with_tasks(flow, "count", tasks, attribute([(stage, runs)], PlanShape())),
        "a new split": lambda: table.split("count", weights),
        "its file": lambda: table.split("count", weights).to_json(),
    }
    costs = {name: statistics.median(cpu_ms(work)[1] for _ in range(cycles)) for name, work in works.items()}
    return {**costs, "bytes of the route file": float(len(table.split("count", weights).to_json()))}


def cpu_ms(work: Callable[[], Any]) -> tuple[Any, float]:
    """What work returns, and the CPU milliseconds of this thread that it took: other processes do not count."""
    begun = time.thread_time()
    result = work()
    return result, 1000 * (time.thread_time() - begun)

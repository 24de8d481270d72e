"""What a cycle, the alarm rules and the reading of tasks do at twice the size: operations are counted, not time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from benchmarks.scaling.worlds import BEGIN, MadeUp

from foretide.control.step import step
from foretide.control.world.setup import Target
from foretide.metrics.alarm_rules import AlarmRule, AlarmState, judge
from foretide.metrics.batch import EdgeFlow, TaskRun
from foretide.metrics.snapshot import Snapshot
from foretide.settings.settings import Settings
from foretide.spark.progress.plan_graph import Exchange, SparkStage
from foretide.spark.progress.tasks import attribute
from foretide.topology.shape import PlanShape

LINEAR = 2.6
"""Times as many operations at twice the size: twice, and what a sort needs more."""


class Counted(float):
    """A number that counts how often it is compared and added."""

    operations: ClassVar[int] = 0

    def _count(self) -> None:
        Counted.operations += 1

    def __lt__(self, other: float) -> bool:
        self._count()
        return float.__lt__(self, other)

    def __gt__(self, other: float) -> bool:
        self._count()
        return float.__gt__(self, other)


class CountedDict(dict[Any, Any]):
    """A mapping that counts the entries that are read."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.read = 0

    def __iter__(self) -> Any:
        for key in dict.__iter__(self):
            self.read += 1
            yield key

    def items(self) -> Any:
        for item in super().items():
            self.read += 1
            yield item

    def get(self, key: Any, default: Any = None) -> Any:
        self.read += 1
        return super().get(key, default)


def entries_read(executors: int, *, stays: bool) -> int:
    """Entries of figures and executors that a cycle reads, when every tenth executor is slow."""
    made = MadeUp(3 * executors, executors, slow=True, stays=stays)
    control = Settings().for_query(Target()).to_control()
    state, read = control.start(), 0
    for batch in range(4):
        made.latest.put(made.samples(made.report(batch)))
        world = made.world(batch)
        figures, alive = CountedDict(world.snapshot.figures), CountedDict(world.observed.executors)
        world = replace(
            world,
            snapshot=replace(world.snapshot, figures=figures),
            observed=replace(world.observed, executors=alive),
        )
        state, decision = step(control, state, world)
        assert not decision.problems
        read = figures.read + alive.read
    return read


@pytest.mark.parametrize("stays", [False, True], ids=["tasks anywhere", "tasks stay"])
def test_a_cycle_reads_twice_as_much_of_twice_as_many_executors_and_tasks(stays: bool) -> None:
    assert entries_read(200, stays=stays) < LINEAR * entries_read(100, stays=stays)


def comparisons(workers: int) -> int:
    """How often the alarm rule for slow workers compares two times."""
    figures = {("worker_slowness", str(each)): (Counted(each * 7919 % workers), BEGIN) for each in range(workers)}
    Counted.operations = 0
    judge(AlarmState(), Snapshot(BEGIN, "q", figures), (AlarmRule("slow", "worker_slowness", times_peers=2.0),))
    return Counted.operations


def test_an_alarm_rule_compares_each_worker_with_its_peers_without_sorting_them_for_each() -> None:
    assert 100 < comparisons(400) < LINEAR * comparisons(200)


@dataclass(frozen=True)
class CountedRun(TaskRun):
    """A task that counts how often its rows are read."""

    reads: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "rows_in":
            CountedRun.reads += 1
        return super().__getattribute__(name)


def reads_of_rows(tasks: int) -> int:
    """How often the rows of tasks are read to find whose they are, in a stage whose parts do not add up to it."""
    figures: tuple[Any, ...] = (0.0, 1, 1, 0, 0, 0.0, 0.0, 10, 10, 100, 100, 0)
    runs = [CountedRun(None, None, None, None, False, "1", "h", *figures) for _ in range(tasks)]
    half = EdgeFlow(5 * tasks, 5 * tasks)
    parts = tuple((Exchange(name, tasks // 2, at, half, (0, 0), (1, 0)),) for at, name in enumerate("ab"))
    hidden = (Exchange("c", 1, 3, EdgeFlow(7, 7), (0, 0), (1, 0)),)
    CountedRun.reads = 0
    assert len(attribute([(SparkStage((1, 0), (*parts, hidden), None), runs)], PlanShape())) == tasks
    return CountedRun.reads


def test_tasks_whose_operator_must_be_found_by_their_rows_are_read_a_few_times_each() -> None:
    assert tasks_read_each(400) <= 4


def tasks_read_each(tasks: int) -> float:
    return reads_of_rows(tasks) / tasks

"""Splits the hot keys of joins before they are hot: Aj-Stream's planning, once for every window of key statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Lt
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import SetExecutors, SetJoinPlan
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.measured import NotYet, arrivals, arrivals_ahead, cores_in_service
from foretide.control.world.world import World
from foretide.joins.placement.salts import tail_partition
from foretide.joins.plan import NO_PLAN, JoinCost, JoinPlan, JoinView, grown
from foretide.joins.planning.planner import explain_plan, plan_join, predict
from foretide.joins.planning.scaling import Joiner, Resources, Scaling, scale
from foretide.joins.settings import JoinSettings, ScalingSettings, WindowSettings

_GIVE_UP_SHARE = 0.5
"""A plan is given up once LI by the hash alone is below this share of `hot_above`."""

_MAX_GROWTH = 4.0
_SAME_LOAD = 0.02
_MAX_LOADS = 1000
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class HotKeySettings(Bounded):
    """How hot keys are chosen and placed."""

    section: ClassVar[str] = "hot_keys"

    choice: Annotated[
        Literal["forecast", "last-window", "reactive"],
        Doc(
            "Plan for the keys that are forecast (`forecast`), for those of the last window (`last-window`), or for "
            "the latter only once balance is lost (`reactive`)."
        ),
    ] = "forecast"
    hot_above: Annotated[
        float,
        Ge(0),
        Doc(
            "LI by the hash alone below which no key counts as hot, and nothing is planned; at half of it a plan in "
            "force is given up."
        ),
    ] = 0.5
    min_saving: Annotated[
        float,
        Lt(1),
        Doc(
            "Share of a join's time that splitting keys must save on the cores there are, by the measured costs of "
            "its tasks; otherwise all keys stay where the hash puts them. A plan in force is given up once it saves "
            "nothing. 0 or less: always split."
        ),
    ] = 0.05
    scale: Annotated[
        bool, Doc("Whether executors are requested and given back by Algorithm 3 of the paper."), Scope.ADVANCED
    ] = False
    windows: Annotated[WindowSettings, Doc("Windows in which keys are counted.")] = field(
        default_factory=WindowSettings
    )
    planning: Annotated[JoinSettings, Doc("How a plan is made.")] = field(
        default_factory=lambda: JoinSettings(max_keys=64, min_gain=0.1, reactive_above=0.3)
    )
    scaling: Annotated[ScalingSettings, Doc("Algorithm 3, with executors for joiners."), Scope.PYTHON_ONLY] = field(
        default_factory=ScalingSettings
    )


@dataclass(frozen=True, slots=True)
class HotKeyState:
    """The windows that were planned for, by join, and the load in each cycle of late: its time, and tuples a second."""

    planned: Mapping[str, int] = field(default_factory=dict)
    loads: tuple[tuple[float, float], ...] = ()

    def with_load(self, world: World) -> HotKeyState:
        """With the load that is measured now, and without those that are older than any window."""
        longest = max((view.window for view in world.joins.values()), default=0.0)
        now = arrivals(world)
        recent = [(at, load) for at, load in self.loads if world.at - longest <= at < world.at]
        more = [] if isinstance(now, NotYet) else [(world.at, math.fsum(now.values()))]
        return replace(self, loads=(*recent, *more)[-_MAX_LOADS:])

    def mean_load(self, since: float) -> float | None:
        """Tuples a second since a time; None if it is not known."""
        recent = [load for at, load in self.loads if at > since]
        return math.fsum(recent) / len(recent) if recent else None


@dataclass(frozen=True, slots=True)
class HotKeys:
    """Wishes for a plan of each join whenever a window of its keys is over; nothing where there is no join."""

    settings: HotKeySettings = field(default_factory=HotKeySettings)
    name: str = "hot_keys"

    def start(self) -> HotKeyState:
        """Nothing planned yet."""
        return HotKeyState()

    def wish(self, state: HotKeyState, world: World) -> tuple[HotKeyState, list[Wish]]:
        """A plan for every join that has a new window and no change under way."""
        state = state.with_load(world)
        planned = dict(state.planned)
        wishes: list[Wish] = []
        for name, view in world.joins.items():
            if view.windows <= planned.get(name, 0) or view.pending is not None or view.problem is not None:
                continue
            planned[name] = view.windows
            wishes += self._planned(view, cores_in_service(world), self._growth(state, world, view))
        return replace(state, planned=planned), wishes + (
            self._scaled(world) if self.settings.scale and world.joins else []
        )

    def _growth(self, state: HotKeyState, world: World, view: JoinView) -> float:
        """How many times the rows of the last window the next one should have, by the forecast of the load."""
        before = state.mean_load(world.at - view.window)
        ahead = arrivals_ahead(world, view.window / 2)
        if self.settings.choice != "forecast" or not before or ahead is None:
            return 1.0
        return min(max(ahead / before, 1 / _MAX_GROWTH), _MAX_GROWTH)

    def _planned(self, view: JoinView, cores: int, growth: float) -> list[Wish]:
        """What the planner says, if it says something else than what is in force."""
        is_forecast = self.settings.choice == "forecast" and bool(view.forecast)
        keys, tail = (view.forecast, view.forecast_tail) if is_forecast else (view.keys, view.tail)
        keys, tail = grown(keys, tail, growth)
        cost = None if view.cost is None else replace(view.cost, cores=cores)
        default = partial(tail_partition, partitions=view.partitions)
        by_hash, now = (predict(plan, keys, tail, default, cost) for plan in (NO_PLAN, view.plan))
        if by_hash.imbalance < self.settings.hot_above * (_GIVE_UP_SHARE if view.plan.grids else 1.0):
            reason = f"no key is hot any more: by the hash alone LI would be {by_hash.imbalance:.2f}"
            return self._given_up(view, reason)
        if self.settings.choice == "reactive" and now.imbalance <= self.settings.planning.reactive_above:
            return []
        hot = sorted(keys, key=lambda load: (-load.left * load.right, -load.rows, load.key))
        planning = replace(self.settings.planning, tuple_bytes=view.row_bytes or self.settings.planning.tuple_bytes)
        plan = plan_join(hot, tail, view.partitions, planning, view.plan, view.how, default, cost)
        then = predict(plan, keys, tail, default, cost)
        if cost is not None and not self._pays(saved := _saved(then, by_hash, cost), view):
            return self._given_up(view, f"split keys cost more than they save: the join would take {_less(saved)}")
        if plan == view.plan:
            return []
        which = f"forecast by {view.forecast_by}" if is_forecast else "of the last window"
        which += "" if abs(growth - 1) < _SAME_LOAD else f", and {growth:.2f} times their rows as the load is forecast,"
        return [self._wished(view, plan, now, which, None if cost is None else _saved(then, now, cost))]

    def _pays(self, saved: float, view: JoinView) -> bool:
        """Whether splitting keys saves enough; once they are split, anything is."""
        least = self.settings.min_saving
        return least <= 0 or saved >= (0.0 if view.plan.grids else least)

    def _given_up(self, view: JoinView, reason: str) -> list[Wish]:
        """All keys back to the hash, if some are not there."""
        if not view.plan.grids:
            return []
        return [Wish(self.name, SetJoinPlan(view.name, NO_PLAN), reason, Expectation("fewer copies of rows"))]

    def _wished(self, view: JoinView, plan: JoinPlan, now: JoinPlan, which: str, saved: float | None) -> Wish:
        saving = "" if saved is None else f" By what its tasks have cost, the join takes {_less(saved)}."
        explained = " ".join(explain_plan(plan, view.plan, view.names))
        reason = f"for the keys {which} LI would be {now.imbalance:.2f}. {explained}{saving}"
        words = f"LI of join '{view.name}' at {plan.imbalance:.2f} instead of {now.imbalance:.2f}"
        names = {key: view.names[key] for key in plan.grids if key in view.names}
        return Wish(self.name, SetJoinPlan(view.name, plan, names), reason, Expectation(words))

    def _scaled(self, world: World) -> list[Wish]:
        """Algorithm 3 with executors for joiners: one more, one fewer, or none.

        More cores and memory come first there. A running executor cannot get any, so that is said, and the next best
        is asked for: another executor.
        """
        limits, settings = world.setup.executors, self.settings.scaling
        size = world.setup.cores_per_executor / settings.cores_unit
        megabytes = math.fsum(view.state_bytes for view in world.joins.values()) / _MEGABYTE
        held = megabytes / (size * settings.memory_unit * max(len(world.observed.in_service), 1))
        joiners = _joiners(world, size, held)
        if limits is None or not joiners:
            return []
        units = size * limits[1]
        total = Resources(units * settings.cores_unit, units * settings.memory_unit, limits[1])
        first = scale(joiners, total, settings)
        answer = scale(joiners, total, replace(settings, max_units=max(size, 1.0))) if first.units else first
        count = len(world.observed.executors) + answer.joiners
        if not answer.joiners or not limits[0] <= count <= limits[1]:
            return []
        return [Wish(self.name, SetExecutors(count), _why(first, answer))]


def _why(first: Scaling, answer: Scaling) -> str:
    if first == answer:
        return answer.reason
    return f"{first.reason}, which needs a new session (spark.executor.cores, spark.executor.memory); {answer.reason}"


def _saved(plan: JoinPlan, before: JoinPlan, cost: JoinCost) -> float:
    """The share of the time until all tasks are done that a plan saves; nothing where nothing costs anything."""
    now = cost.span(before.work)
    return 1 - cost.span(plan.work) / now if now > 0 else 0.0


def _less(saved: float) -> str:
    return f"{abs(saved):.0%} {'less' if saved >= 0 else 'more'} time".replace("%", " %")


def _joiners(world: World, units: float, held: float) -> list[Joiner]:
    """Workers as Algorithm 3 sees them, once they were measured.

    `held` is the share of its memory that the state of all joins takes on each, if it were spread evenly: those that
    get more tuples hold more of it.
    """
    measured = [joiner for worker in sorted(world.observed.in_service) if (joiner := _joiner(world, worker, units))]
    mean = math.fsum(joiner.rate for joiner in measured) / len(measured) if measured else 0.0
    return [replace(joiner, memory=held * joiner.rate / mean if mean > 0 else held) for joiner in measured]


def _joiner(world: World, worker: str, units: float) -> Joiner | None:
    """One executor: by the tasks of the joins alone, or by all that it does where those are not known."""
    own = [view.joiners[worker] for view in world.joins.values() if worker in view.joiners]
    if rows := sum(each.rows for each in own):
        latency = math.fsum(each.latency * each.rows for each in own) / rows
        rate = math.fsum(each.rows / each.seconds for each in own)
    else:
        figures = [
            world.snapshot.value(f"worker_{name}", worker)
            for name in ("inbound_queuing_time_ms", "tuple_execution_time_ms", "inbound_tuples_per_second")
        ]
        waiting, working, inbound = figures
        if waiting is None or working is None or inbound is None:
            return None
        latency, rate = (waiting + working) / 1000, inbound
    cpu = sum(world.snapshot.value(f"worker_cpu_{kind}_percent", worker) or 0.0 for kind in ("user", "system"))
    return Joiner(worker, latency, rate, units, cpu=cpu / 100 / max(world.setup.cores_per_executor, 1))

"""Hot keys of joins, split before they are hot: Aj-Stream's planning, once for every window of key statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from foretide.control.actions import SetExecutors, SetJoinPlan
from foretide.control.decision import Expectation, Wish
from foretide.control.join_view import JoinView
from foretide.control.world import World
from foretide.durations import Seconds
from foretide.errors import ControlSettingError
from foretide.planning.join import plan_join, predict
from foretide.planning.join_model import Home, JoinPlan
from foretide.planning.join_scaling import Joiner, Resources, scale
from foretide.planning.join_settings import JoinSettings, ScalingSettings, Variant
from foretide.planning.join_words import explain_plan
from foretide.routing.steering import tail_partition

_AN_EXECUTOR = ScalingSettings(largest=1.0)
"""Executors are all of one size: one that lags gets no more cores, so there is another one."""

Choice = Literal["forecast", "last-window", "reactive"]


@dataclass(frozen=True, slots=True)
class HotKeySettings:
    """How hot keys are chosen and placed.

    Attributes:
        choice: Plan for the keys that are foreseen (`forecast`), for those of the last window (`last-window`), or for
            the latter only once balance is lost (`reactive`).
        variant: `balanced`, or `paper` for Aj-Stream's own algorithms.
        window: Seconds over which keys are counted, and for which a plan is made.
        most_keys: Most keys that are planned one by one.
        target: LI that a plan tries to reach.
        least_gain: LI that a new plan has to gain, or the old one stays.
        reactive_above: LI above which `reactive` plans anew.
        scale: Whether executors are asked for, or given back, as Algorithm 3 has it.
    """

    choice: Choice = "forecast"
    variant: Variant = "balanced"
    window: Seconds = 30.0
    most_keys: int = 64
    target: float = 0.08
    least_gain: float = 0.1
    reactive_above: float = 0.3
    scale: bool = False

    def __post_init__(self) -> None:
        if (
            not (self.window > 0 and self.most_keys > 0 and self.target > 0)
            or min(self.least_gain, self.reactive_above) < 0
        ):
            raise ControlSettingError(
                f"hot keys: {self} makes no sense; a window, keys and a target above 0, and no negative gain"
            )

    @property
    def planning(self) -> JoinSettings:
        """As the planner has it."""
        return JoinSettings(
            variant=self.variant,
            most_keys=self.most_keys,
            target=self.target,
            least_gain=self.least_gain,
            reactive_above=self.reactive_above,
            window=self.window,
            advance=self.window,
        )


@dataclass(frozen=True, slots=True)
class HotKeyState:
    """The windows that were planned for, by join."""

    windows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HotKeys:
    """Wishes for a plan of each join whenever a window of its keys is over; nothing where there is no join."""

    settings: HotKeySettings = field(default_factory=HotKeySettings)
    name: str = "hot-keys"

    def start(self) -> HotKeyState:
        """Nothing planned yet."""
        return HotKeyState()

    def wish(self, state: HotKeyState, world: World) -> tuple[HotKeyState, list[Wish]]:
        """A plan for every join that has a new window and no change under way."""
        planned = dict(state.windows)
        wishes: list[Wish] = []
        for name, view in world.joins.items():
            if view.windows <= planned.get(name, 0) or view.pending is not None or view.problem is not None:
                continue
            planned[name] = view.windows
            wishes += self._planned(view)
        return HotKeyState(planned), wishes + (self._scaled(world) if self.settings.scale and world.joins else [])

    def _planned(self, view: JoinView) -> list[Wish]:
        """What the planner says, if it says something else than what is in force."""
        foresees = self.settings.choice == "forecast" and bool(view.foreseen)
        keys, tail = (view.foreseen, view.foreseen_tail) if foresees else (view.keys, view.tail)
        home = _home(view.partitions)
        now = predict(view.plan, keys, tail, home)
        if self.settings.choice == "reactive" and now.imbalance <= self.settings.reactive_above:
            return []
        hot = sorted(keys, key=lambda load: (-load.left * load.right, -load.rows, load.key))
        plan = plan_join(hot, tail, view.partitions, self.settings.planning, view.plan, view.how, home)
        if plan == view.plan:
            return []
        return [self._wished(view, plan, now.imbalance, f"foreseen by {view.by}" if foresees else "of the last window")]

    def _wished(self, view: JoinView, plan: JoinPlan, now: float, which: str) -> Wish:
        reason = f"for the keys {which} LI would be {now:.2f}. {' '.join(explain_plan(plan, view.plan, view.names))}"
        words = f"LI of join '{view.name}' at {plan.imbalance:.2f} instead of {now:.2f}"
        grids = {key: grid.rows for key, grid in plan.grids.items()}
        names = {key: view.names[key] for key in grids if key in view.names}
        return Wish(self.name, SetJoinPlan(view.name, grids, names), reason, Expectation(words))

    def _scaled(self, world: World) -> list[Wish]:
        """Algorithm 3 with executors for joiners: one more, one fewer, or none."""
        limits = world.setup.executors
        joiners = [joiner for worker in sorted(world.observed.in_service) if (joiner := _joiner(world, worker))]
        if limits is None or not joiners:
            return []
        cores = float(world.setup.cores_per_executor * limits[1])
        answer = scale(joiners, Resources(cores, 1024.0 * cores, limits[1]), _AN_EXECUTOR)
        count = len(world.observed.executors) + answer.joiners
        if not answer.joiners or not limits[0] <= count <= limits[1]:
            return []
        return [Wish(self.name, SetExecutors(count), answer.reason)]


def _home(partitions: int) -> Home:
    return lambda key: tail_partition(key, partitions)


def _joiner(world: World, worker: str) -> Joiner | None:
    """A worker as Algorithm 3 sees it, once it was measured."""
    figures = [
        world.snapshot.value(f"worker_{name}", worker)
        for name in ("inbound_queuing_time_ms", "tuple_execution_time_ms", "inbound_tuples_per_second")
    ]
    waiting, working, rate = figures
    if waiting is None or working is None or rate is None:
        return None
    cpu = sum(world.snapshot.value(f"worker_cpu_{kind}_percent", worker) or 0.0 for kind in ("user", "system"))
    busy = cpu / 100 / max(world.setup.cores_per_executor, 1)
    return Joiner(worker, (waiting + working) / 1000, rate, cpu=busy, memory=0.0)

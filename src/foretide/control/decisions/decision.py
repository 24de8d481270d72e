"""A decision: what was seen and forecast, wanted and chosen, and why; and decisions and recorded worlds as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from foretide import codec
from foretide.control.actions.registry import ACTIONS, Action, Quarantine, Release, SetReplicas, SetSplit
from foretide.control.world.outlook import Foreseen
from foretide.control.world.setup import ControlMode, Target
from foretide.control.world.world import World
from foretide.errors import CodecError
from foretide.metrics.from_batch import SLOWNESS
from foretide.metrics.running_tasks import RUNNING_SLOWNESS
from foretide.metrics.snapshot import Key, Known

T = TypeVar("T")
Outcome = Literal["better", "worse", "no clear change", "unclear", "never observed"]

_QUERY_METRICS = ("batch", "input_rows_per_second", "processed_rows_per_second", "batch_duration_ms", "latency_mean_ms",
          "latency_p99_ms", "total_lag")  # fmt: skip
_SPOUT_METRICS = ("arrival_rate", "lag")
_OPERATOR_METRICS = ("arrival_rate", "service_time_ms", "utilization")
_WORKER_METRICS = (
    SLOWNESS,
    RUNNING_SLOWNESS,
    "worker_tuple_execution_time_ms",
    "worker_inbound_queuing_time_ms",
    "worker_cpu_wait_percent",
)

FORMAT = 1
"""The number of the JSON format, written with every value."""

ORDERS = "orders"
"""The policy named for what a person ordered."""

ROLLBACK = "rollback"
"""The policy named for what undoes an earlier decision."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure behind a decision: its age if it was measured; the model and the horizon if it is a forecast."""

    metric: str
    subject: str
    value: float
    age: float = 0.0
    by: str | None = None
    ahead: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an action should achieve: in words, and as a figure if there is one."""

    words: str
    metric: str | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """An action that a policy wants, and why.

    One that is `urgent`, because it ends harm, waits for no cooldown. One that is `routine` is a small correction that
    is made often: it waits for none either, causes none, does not count towards the quota, and is not evaluated.

    One `within_batch` ends what no batch has shown yet, so that latency before it is no measure of its effect.

    `foreseen` is the forecast load that it is planned for; None if it is planned for the measured load.
    """

    policy: str
    action: Action
    reason: str
    expected: Expectation | None = None
    urgent: bool = False
    routine: bool = False
    within_batch: bool = False
    foreseen: Foreseen | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """A wish that lost against another one."""

    winner: str
    loser: Wish
    over: str


@dataclass(frozen=True, slots=True)
class Intervention:
    """What a guard did to a wish: `after` is None if it stopped it."""

    guard: str
    policy: str
    before: Action
    after: Action | None
    reason: str


@dataclass(frozen=True, slots=True)
class Effect:
    """What a decision achieved.

    Attributes:
        metric: What was compared, before and after.
        before: Median before the decision.
        after: Median once its actions were in force.
        in_force_after: Seconds from the decision until its actions were observed.
    """

    decision: int
    outcome: Outcome
    words: str
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    in_force_after: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """One control cycle.

    Attributes:
        id: Counts up from 1.
        at: Seconds since 1970.
        mode: `act`, or `advise` if nothing was changed.
        seen: Figures that were measured.
        forecasts: Forecasts that had a vote.
        wishes: What policies wanted, before arbitration and guards.
        chosen: What is to be done: actions with the policy that won and its reason.
        problems: Policies that failed or lack figures, and forecasts that lost their vote, in sentences.
        effects_of_earlier: What earlier decisions achieved, as far as it became known in this cycle.
        effect: What this one achieved; known later.
        target: What was to be held; None in decisions of earlier releases.
        by_hand: What people have set or released since the decision before.
    """

    id: int
    at: float
    query: str
    mode: ControlMode = "act"
    seen: tuple[Fact, ...] = ()
    forecasts: tuple[Fact, ...] = ()
    wishes: tuple[Wish, ...] = ()
    chosen: tuple[Wish, ...] = ()
    contests: tuple[Contest, ...] = ()
    guards: tuple[Intervention, ...] = ()
    problems: tuple[str, ...] = ()
    effects_of_earlier: tuple[Effect, ...] = ()
    effect: Effect | None = None
    target: Target | None = None
    by_hand: tuple[str, ...] = ()

    @property
    def measured(self) -> float | None:
        """Seconds that tuples took by then, of the quantile that the target names; None if that is not known."""
        metric = None if self.target is None else self.target.metric
        return next((fact.value / 1000.0 for fact in self.seen if fact.metric == metric), None)

    @property
    def target_held(self) -> bool | None:
        """Whether the latency target was held when it was made; None without a target, or if that is not known."""
        if self.target is None or self.target.latency is None or self.measured is None:
            return None
        return self.measured <= self.target.latency

    @property
    def actions(self) -> tuple[Action, ...]:
        """What is to be done."""
        return tuple(wish.action for wish in self.chosen)

    @property
    def acted(self) -> bool:
        """Whether anything was changed."""
        return bool(self.chosen) and self.mode == "act"

    @property
    def idle(self) -> bool:
        """Whether there is nothing to report: no wish, nothing by hand, no problem, no effect."""
        return not (self.wishes or self.by_hand or self.problems or self.effects_of_earlier)

    def with_effect(self, effect: Effect) -> Decision:
        """The decision together with its effect."""
        return replace(self, effect=effect)


def measured_facts(world: World, wishes: Sequence[Wish]) -> tuple[Fact, ...]:
    """Figures of the query, of its spouts, and of what the wishes change, as far as they are known."""
    known = ((key, world.snapshot.figure(*key)) for key in _keys(world, wishes))
    return tuple(Fact(*key, figure.value, figure.age) for key, figure in known if isinstance(figure, Known))


def forecast_facts(world: World, wishes: Sequence[Wish]) -> tuple[Fact, ...]:
    """Forecasts of the same figures at their farthest horizon."""
    forecasts = ((key, world.forecasts.by_series.get(key)) for key in _keys(world, wishes))
    return tuple(
        Fact(*key, forecast.points[-1].mean, by=forecast.by, ahead=forecast.points[-1].seconds)
        for key, forecast in forecasts
        if forecast is not None
    )


def _keys(world: World, wishes: Sequence[Wish]) -> list[Key]:
    keys: list[Key] = [(metric, world.snapshot.query) for metric in (*_QUERY_METRICS, world.target.metric)]
    keys += [(metric, spout) for spout in world.setup.spouts for metric in _SPOUT_METRICS]
    keys += [key for wish in wishes for key in _about(wish.action, world)]
    return list(dict.fromkeys(keys))


def _about(action: Action, world: World) -> Iterator[Key]:
    match action:
        case SetReplicas(edge) | SetSplit(edge) if edge in world.setup.by_edge:
            name = world.setup.by_edge[edge].name
            yield from ((metric, name) for metric in _OPERATOR_METRICS)
        case Quarantine(worker) | Release(worker):
            yield from ((metric, worker) for metric in _WORKER_METRICS)


def to_data(value: Any) -> dict[str, Any]:
    """As dictionaries, lists, texts and numbers."""
    return {"format": FORMAT, **codec.to_data(value, ACTIONS)}


def to_json(value: Any) -> str:
    """As JSON that `from_json` reads back."""
    return codec.to_json(to_data(value))


def from_json(kind: type[T], text: str) -> T:
    """The value of that type that was written.

    Raises:
        CodecError: The text is damaged, or was written in a format that this release cannot read.
    """
    data = codec.parse_json(text)
    written = data.get("format") if isinstance(data, dict) else None
    if written != FORMAT:
        raise CodecError("format", f"this release reads format {FORMAT}, got {written}")
    return codec.from_data(kind, data, ACTIONS)

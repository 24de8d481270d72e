"""One control cycle: observe, evaluate, wish, arbitrate, guard, decide. The same live, in simulations and in replays.

```python
control = Control(policies=(Bypass(), Replicas()))
state, decision = step(control, control.start(), world)
for action in decision.actions: ...
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from foretide.control.actions.executors import QUERY
from foretide.control.actions.registry import (
    Action,
    Quarantine,
    QuarantineHost,
    Release,
    ReleaseHost,
    Restart,
    SetReplicas,
    SetSplit,
)
from foretide.control.decisions.decision import (
    ORDERS,
    Contest,
    Decision,
    Effect,
    Wish,
    forecast_facts,
    measured_facts,
)
from foretide.control.decisions.effects import Evaluations, EvaluationSettings, close_all, evaluate
from foretide.control.forecast_scores import ForecastScores, VoteSettings
from foretide.control.guards import GuardSettings, guard
from foretide.control.memory import ControlMemory
from foretide.control.world.setup import ControlMode, Observed
from foretide.control.world.world import Request, World
from foretide.errors import ControlError

S = TypeVar("S")


class Policy(Protocol[S]):
    """Decides from one point of view. `wish` depends on its arguments only, and changes none of them.

    A policy states what it wants even where that is in force already: guards need to know that it is still wanted.
    """

    @property
    def name(self) -> str:
        """Its name in settings and decisions."""
        ...

    def start(self) -> S:
        """The state before the first cycle."""
        ...

    def wish(self, state: S, world: World) -> tuple[S, list[Wish]]:
        """The next state, and the actions it would like to take, with reasons."""
        ...


@dataclass(frozen=True)
class Control:
    """How a query is controlled.

    Attributes:
        policies: In order of rank: where two disagree, the first one wins.
        mode: `act`, or `advise` to decide and explain without changing anything.
    """

    policies: tuple[Policy[Any], ...] = ()
    guards: GuardSettings = field(default_factory=GuardSettings)
    evaluations: EvaluationSettings = field(default_factory=EvaluationSettings)
    votes: VoteSettings = field(default_factory=VoteSettings)
    mode: ControlMode = "act"

    def __post_init__(self) -> None:
        names = [policy.name for policy in self.policies]
        if len(set(names)) < len(names):
            raise ControlError(f"two policies share a name ({', '.join(names)}); give each its own")

    def in_mode(self, mode: Literal["act", "advise", "pause"]) -> Control:
        """The same in another mode; paused, without wishes of its own, so that only orders of people are carried out.

        A loop that only advises changes nothing when it is paused either.
        """
        if mode == "pause":
            return replace(self, policies=(), evaluations=replace(self.evaluations, roll_back=False))
        return replace(self, mode=mode)

    def start(self) -> ControlState:
        """The state before the first cycle."""
        return ControlState({policy.name: policy.start() for policy in self.policies})


@dataclass(frozen=True, slots=True)
class ControlState:
    """All that is carried from one cycle to the next. `held` is what people held in the last; None before the first."""

    policies: Mapping[str, Any] = field(default_factory=dict)
    memory: ControlMemory = field(default_factory=ControlMemory)
    requested: tuple[Request, ...] = ()
    evaluations: Evaluations = field(default_factory=Evaluations)
    forecast_scores: ForecastScores = field(default_factory=ForecastScores)
    decisions: int = 0
    held: Mapping[str, str] | None = None


def step(control: Control, state: ControlState, world: World) -> tuple[ControlState, Decision]:
    """One cycle: the next state, and what is to be done."""
    state, world, distrusted = _observe(control, state, world)
    result = evaluate(state.evaluations, world, control.evaluations)
    states, wishes, problems = _wish(control, state, world)
    orders = [Wish(ORDERS, action, "a person asked for it") for action in world.orders]
    ranked = [*orders, *result.rollbacks, *wishes]
    standing, contests = arbitrate(ranked, world.observed)
    memory = state.memory.with_wishes(standing, world.at, control.guards.down_window)
    memory = replace(memory, blocked=(*memory.blocked, *result.blocked))
    requested = tuple(each for each in state.requested if each not in result.unobserved)
    world = replace(world, requested=requested)
    chosen, interventions = guard(control.guards, [wish for wish in standing if _is_new(wish, world)], memory, world)
    number = state.decisions + 1
    evaluations, closed = _open_evaluation(control, result.evaluations, number, chosen, world)
    decision = Decision(
        id=number,
        at=world.at,
        query=world.setup.query,
        mode=control.mode,
        seen=measured_facts(world, ranked),
        forecasts=forecast_facts(world, ranked),
        wishes=tuple(wish for wish in ranked if _is_new(wish, world)),
        chosen=tuple(chosen),
        contests=tuple(contests),
        guards=tuple(interventions),
        problems=(*problems, *distrusted),
        effects_of_earlier=(*result.effects, *closed),
        target=world.target,
        by_hand=tuple(_by_hand(state.held, world.held)),
    )
    new_requests = [Request(wish.action, number, world.at) for wish in chosen] if control.mode == "act" else []
    memory = memory.with_decided([wish for wish in chosen if not wish.routine], world.at)
    requested = (*requested, *new_requests)
    scores = state.forecast_scores
    return ControlState(states, memory, requested, evaluations, scores, number, dict(world.held)), decision


def _by_hand(before: Mapping[str, str] | None, now: Mapping[str, str]) -> Iterator[str]:
    """What people have set or released since the last cycle."""
    if before is None:
        return
    yield from (f"{subject}: {words}" for subject, words in now.items() if before.get(subject) != words)
    yield from (f"{subject}: released" for subject in before if subject not in now)


def _observe(control: Control, state: ControlState, world: World) -> tuple[ControlState, World, list[str]]:
    """Note what is in force by now, score forecasts that are due, and leave those that are trusted."""
    scores = state.forecast_scores.update(control.votes, world.snapshot, world.forecasts)
    lost = [
        f"the forecast of {metric} of '{subject}' for {seconds:g} s ahead is worse than the last value and not used"
        for metric, subject, seconds in sorted(scores.lost - state.forecast_scores.lost)
    ]
    requested = tuple(each for each in state.requested if not each.action.in_force(world.observed))
    memory = state.memory.with_observed(world.observed, world.at, world.batch)
    world = replace(world, forecasts=scores.trusted(world.forecasts), requested=requested, forecast_for_now=scores.due)
    return replace(state, requested=requested, memory=memory, forecast_scores=scores), world, lost


def _wish(control: Control, state: ControlState, world: World) -> tuple[dict[str, Any], list[Wish], list[str]]:
    """Ask every policy. One that fails keeps its state and is named; the others go on."""
    states = dict(state.policies)
    wishes: list[Wish] = []
    problems: list[str] = []
    for policy in control.policies:
        before = state.policies[policy.name] if policy.name in state.policies else policy.start()
        try:
            states[policy.name], wanted = policy.wish(before, world)
            wishes += wanted
            problems += _missing(policy.name, before, states[policy.name])
        except Exception as error:  # noqa: BLE001 - whatever a policy does, the others go on
            states[policy.name] = before
            problems.append(f"policy '{policy.name}' failed: {type(error).__name__}: {error}")
    return states, wishes, problems


def _missing(name: str, before: Any, after: Any) -> list[str]:
    """What a policy waits for, or cannot reach, said once. States may have `waits_for` and `notice`, in words."""
    waits_for, notice = getattr(after, "waits_for", None), getattr(after, "notice", None)
    said = [] if waits_for is None or waits_for == getattr(before, "waits_for", None) else [waits_for]
    found = [f"policy '{name}' cannot plan: {waits_for}" for waits_for in said]
    if notice is not None and getattr(before, "notice", None) is None:
        found.append(f"policy '{name}': {notice}")
    return found


def _is_new(wish: Wish, world: World) -> bool:
    """Neither in force nor asked for already."""
    return not wish.action.in_force(world.observed) and not world.is_requested(wish.action)


def _open_evaluation(
    control: Control, evaluations: Evaluations, number: int, chosen: list[Wish], world: World
) -> tuple[Evaluations, tuple[Effect, ...]]:
    """Begin to evaluate a decision. The open ones end: what follows cannot be told apart from the new one's effect."""
    evaluated = [wish for wish in chosen if not wish.routine]
    if not evaluated or control.mode == "advise":
        return evaluations, ()
    closed, effects = close_all(evaluations, world, control.evaluations)
    return closed.with_decision(number, evaluated, world, control.evaluations), effects


_ANYTHING = "anything"
"""Claimed by every action, so that a restart contradicts all of them."""


def arbitrate(wishes: Iterable[Wish], observed: Observed) -> tuple[list[Wish], list[Contest]]:
    """The wishes that stand, and the contests that the others lost. Wishes come in order of rank.

    Two contradict each other if they act on one target, on a host and one of its workers, or if one is a restart. A
    split contradicts no number of replicas that is in force and stays so.
    """
    standing: list[Wish] = []
    contests: list[Contest] = []
    claimed: dict[str, Wish] = {}
    for wish in wishes:
        touches, claims = _reach(wish.action, observed)
        rival = next((claimed[each] for each in touches if each in claimed), None)
        if rival is None:
            standing.append(wish)
            claimed |= dict.fromkeys(claims, wish)
        elif _refines(wish.action, rival.action, observed):
            standing.append(wish)
        elif rival.action != wish.action:
            contests.append(Contest(rival.policy, wish, rival.action.target))
    return standing, contests


def _refines(action: Action, rival: Action, observed: Observed) -> bool:
    """Whether an action only splits otherwise what another one wants and has."""
    match action, rival:
        case SetSplit(edge, weights), SetReplicas(other, replicas) if edge == other and rival.in_force(observed):
            return [weight > 0 for weight in weights] == [task < replicas for task in range(len(weights))]
    return False


def _reach(action: Action, observed: Observed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The claims of others that it contradicts, and its own claims."""
    match action:
        case Restart():
            return (_ANYTHING,), (action.target, _ANYTHING)
        case QuarantineHost(host) | ReleaseHost(host):
            return (action.target, f"a worker of {host}", QUERY), (action.target, _ANYTHING)
        case Quarantine(worker) | Release(worker):
            host = observed.executors.get(worker, "")
            return (action.target, f"host {host}", QUERY), (action.target, f"a worker of {host}", _ANYTHING)
        case _:
            return (action.target, QUERY), (action.target, _ANYTHING)

"""One control cycle: observe, foresee, wish, arbitrate, guard, decide. The same live, simulated and replayed.

```python
control = Control(policies=(Bypass(), Replicas()))
state, decision = step(control, control.start(), world)
for action in decision.actions: ...
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foretide.control.arbitration import arbitrate
from foretide.control.decisions.decision import ControlMode, Decision, Effect, Wish
from foretide.control.decisions.effects import Evaluations, EvaluationSettings, close, follow
from foretide.control.decisions.facts import foreseen, seen
from foretide.control.forecast_scores import ForecastScores, VoteSettings, enter
from foretide.control.guards import ORDERS, guard
from foretide.control.memory import ControlMemory
from foretide.control.policies.policy import Policy
from foretide.control.settings import GuardSettings
from foretide.control.world.world import Request, World
from foretide.errors import ControlSettingError


@dataclass(frozen=True)
class Control:
    """How a query is controlled.

    Attributes:
        policies: In order of rank: where two disagree, the first one wins.
        guards: What the loop may do at most, and how often.
        trials: How decisions are judged, and undone.
        votes: When forecasts may vote.
        mode: `act`, or `advise` to decide and explain without touching anything.
        horizon: Seconds ahead that a snapshot's plain forecasts speak of.
    """

    policies: tuple[Policy[Any], ...] = ()
    guards: GuardSettings = field(default_factory=GuardSettings)
    trials: EvaluationSettings = field(default_factory=EvaluationSettings)
    votes: VoteSettings = field(default_factory=VoteSettings)
    mode: ControlMode = "act"
    horizon: float = 30.0

    def __post_init__(self) -> None:
        names = [policy.name for policy in self.policies]
        if len(set(names)) < len(names):
            raise ControlSettingError(f"two policies share a name ({', '.join(names)}); give each its own")

    def start(self) -> ControlState:
        """The state before the first cycle."""
        return ControlState({policy.name: policy.start() for policy in self.policies})


@dataclass(frozen=True, slots=True)
class ControlState:
    """All that is carried from one cycle to the next."""

    policies: Mapping[str, Any] = field(default_factory=dict)
    past: ControlMemory = field(default_factory=ControlMemory)
    requested: tuple[Request, ...] = ()
    trials: Evaluations = field(default_factory=Evaluations)
    book: ForecastScores = field(default_factory=ForecastScores)
    decisions: int = 0


def step(control: Control, state: ControlState, world: World) -> tuple[ControlState, Decision]:
    """One cycle: the next state, and what is to be done."""
    state, world, lost_votes = _observe(control, state, world)
    followed = follow(state.trials, world, control.trials)
    states, wishes, problems = _wish(control, state, world)
    ranked = [*_ordered(world), *followed.rollbacks, *wishes]
    standing, contests = arbitrate(ranked, world.observed)
    past = state.past.noting(standing, world.at, control.guards.down_window)
    past = replace(past, blocks=(*past.blocks, *followed.blocks))
    requested = tuple(each for each in state.requested if each not in followed.lost)
    world = replace(world, requested=requested)
    chosen, interventions = guard(control.guards, [wish for wish in standing if _is_new(wish, world)], past, world)
    number = state.decisions + 1
    trials, unclear = _open_trials(control, followed.trials, number, chosen, world)
    decision = Decision(
        id=number,
        at=world.at,
        query=world.setup.query,
        mode=control.mode,
        seen=seen(world, ranked),
        foreseen=foreseen(world, ranked),
        wishes=tuple(wish for wish in ranked if _is_new(wish, world)),
        chosen=tuple(chosen),
        contests=tuple(contests),
        guards=tuple(interventions),
        problems=(*problems, *lost_votes),
        news=(*followed.effects, *unclear),
    )
    asked = [Request(wish.action, number, world.at) for wish in chosen] if control.mode == "act" else []
    past = past.doing(chosen, number, world.at)
    return ControlState(states, past, (*requested, *asked), trials, state.book, number), decision


def _observe(control: Control, state: ControlState, world: World) -> tuple[ControlState, World, list[str]]:
    """Note what is in force by now, settle forecasts that are due, and take votes away."""
    foresight = world.foresight.with_plain(world.snapshot.forecasts, control.horizon)
    book = enter(state.book, control.votes, world.snapshot, foresight)
    new_losers = book.losers - state.book.losers
    lost = [f"the forecast of {metric} of '{subject}' lost its vote" for metric, subject in sorted(new_losers)]
    requested = tuple(each for each in state.requested if not each.action.in_force(world.observed))
    past = state.past.observing(world.observed, world.at, world.batch)
    judged = frozenset(key for key, look in foresight.outlooks.items() if look.may_vote is None) & book.losers
    world = replace(world, foresight=foresight.without(judged), requested=requested, foreseen_for_now=book.due)
    return replace(state, requested=requested, past=past, book=book), world, lost


def _wish(control: Control, state: ControlState, world: World) -> tuple[dict[str, Any], list[Wish], list[str]]:
    """Ask every policy. One that fails keeps its state and is named; the others go on."""
    states: dict[str, Any] = {}
    wishes: list[Wish] = []
    problems: list[str] = []
    for policy in control.policies:
        before = state.policies[policy.name] if policy.name in state.policies else policy.start()
        try:
            states[policy.name], wanted = policy.wish(before, world)
            wishes += wanted
        except Exception as error:  # noqa: BLE001 - whatever a policy does, the others go on
            states[policy.name] = before
            problems.append(f"policy '{policy.name}' failed: {type(error).__name__}: {error}")
    return states, wishes, problems


def _ordered(world: World) -> list[Wish]:
    return [Wish(ORDERS, action, "a person asked for it") for action in world.orders]


def _is_new(wish: Wish, world: World) -> bool:
    """Neither in force nor asked for already."""
    return not wish.action.in_force(world.observed) and not world.is_requested(wish.action)


def _open_trials(
    control: Control, trials: Evaluations, number: int, chosen: list[Wish], world: World
) -> tuple[Evaluations, tuple[Effect, ...]]:
    """Put a decision on trial; what was on trial before can be told no more once something new is done."""
    if not chosen or control.mode == "advise":
        return trials, ()
    closed, effects = close(trials, world, control.trials)
    return closed.opening(number, chosen, world, control.trials), effects

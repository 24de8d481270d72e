"""What decisions achieved: latency before and after, and the way back from those that made things worse.

The evaluation of a decision begins when its actions are in force. One that freed capacity made things worse if latency
left the target (or doubled, if there is none). Any other did so only if latency rose, keeps rising, and batches got
slower under the same load: latency alone also rises while a backlog is processed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import Action
from foretide.control.decisions.decision import ROLLBACK, Decision, Effect, Expectation, Outcome, Wish
from foretide.control.decisions.explain import in_unit
from foretide.control.memory import BlockedAction
from foretide.control.world.world import Request, World
from foretide.durations import Seconds
from foretide.formatting import format_number

_MAX_WINDOWS_WITHOUT_BATCH = 10


@dataclass(frozen=True, slots=True)
class EvaluationSettings(Bounded):
    """How the effect of a decision is evaluated, and when it is rolled back."""

    section: ClassVar[str] = "evaluation"

    window: Annotated[
        Seconds,
        Gt(0),
        Doc(
            "Latency of this many seconds before a decision is compared with that after it is in force; of longer "
            "batches, that of three."
        ),
        Scope.ADVANCED,
    ] = 60.0
    min_batches: Annotated[int, Ge(1), Doc("Minimum batches before and after."), Scope.PYTHON_ONLY] = 3
    tolerance: Annotated[
        float, Ge(0), Doc("Share by which latency, load and speed may differ by chance."), Scope.PYTHON_ONLY
    ] = 0.3
    saving_tolerance: Annotated[
        float,
        Ge(0),
        Doc("Share by which latency may rise when capacity was given back and no target is set."),
        Scope.PYTHON_ONLY,
    ] = 1.0
    request_timeout: Annotated[
        Seconds,
        Ge(0),
        Doc("Seconds, in addition to the action's own cost, after which a request counts as never carried out."),
        Scope.ADVANCED,
    ] = 60.0
    block_for: Annotated[
        Seconds, Ge(0), Doc("Seconds for which an action that made things worse is not repeated."), Scope.ADVANCED
    ] = 900.0
    roll_back: Annotated[bool, Doc("Whether a decision that made things worse is undone.")] = True


@dataclass(frozen=True, slots=True)
class Reading:
    """What one batch showed: latency, tuples due a second, tuples processed a second."""

    at: float
    latency: float
    load: float | None
    speed: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A decision whose effect is not known yet. `undo` holds the way back for each action that has one."""

    decision: int
    at: float
    wishes: tuple[Wish, ...]
    undo: tuple[Action, ...]
    freed_capacity: bool
    before: tuple[Reading, ...]
    in_force_at: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Decisions under evaluation, and the readings they are judged by."""

    open: tuple[Evaluation, ...] = ()
    readings: tuple[Reading, ...] = ()
    batch: int | None = None

    def with_reading(self, world: World, settings: EvaluationSettings) -> Evaluations:
        """With what the last batch showed, if it is a new one."""
        latency = _latency(world)
        if latency is None or (world.batch is not None and world.batch == self.batch):
            return self
        new = Reading(world.at, latency, _load(world), world.snapshot.value("processed_rows_per_second"))
        old = bisect_right(self.readings, world.at - 2 * settings.window, key=lambda each: each.at)
        few = max(0, len(self.readings) + 1 - 2 * settings.min_batches)
        return Evaluations(self.open, (*self.readings[min(old, few) :], new), world.batch)

    def with_decision(
        self, decision: int, wishes: Sequence[Wish], world: World, settings: EvaluationSettings
    ) -> Evaluations:
        """With a decision that has just been taken."""
        undo = [wish.action.undo(world.observed) for wish in wishes if wish.policy != ROLLBACK]
        new = Evaluation(
            decision,
            world.at,
            tuple(wishes),
            tuple(action for action in undo if action is not None),
            freed_capacity=all(wish.action.frees_capacity(world.observed) for wish in wishes),
            before=self._before(world.at, settings),
        )
        return replace(self, open=(*self.open, new))

    def _before(self, at: float, settings: EvaluationSettings) -> tuple[Reading, ...]:
        """The readings of the last window, but at least as many as are needed."""
        old = bisect_right(self.readings, at - settings.window, key=lambda each: each.at)
        return self.readings[min(old, max(0, len(self.readings) - settings.min_batches)) :]


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """What is known of decisions by now.

    Attributes:
        evaluations: Those that go on.
        effects: What the others achieved.
        rollbacks: Wishes to undo those that made things worse.
        blocked: Their actions, which may not be taken again for a while.
        unobserved: Requests that were never carried out.
    """

    evaluations: Evaluations
    effects: tuple[Effect, ...] = ()
    rollbacks: tuple[Wish, ...] = ()
    blocked: tuple[BlockedAction, ...] = ()
    unobserved: tuple[Request, ...] = ()


def evaluate(evaluations: Evaluations, world: World, settings: EvaluationSettings) -> EvaluationResult:
    """Judge the decisions that can be judged by now."""
    evaluations = evaluations.with_reading(world, settings)
    unobserved = tuple(each for each in world.requested if _overdue(each, world, settings))
    given_up = {request.decision for request in unobserved}
    still_open: list[Evaluation] = []
    effects: list[Effect] = []
    rollbacks: list[Wish] = []
    blocked: list[BlockedAction] = []
    for evaluation in evaluations.open:
        if evaluation.decision in given_up:
            words = f"was not observed within {world.at - evaluation.at:.0f} s"
            effects.append(Effect(evaluation.decision, "never observed", words))
            continue
        current = _confirmed(evaluation, world)
        if current.in_force_at is None or not _can_be_judged(current.in_force_at, evaluations, world, settings):
            still_open.append(current)
            continue
        effect = _effect(current, evaluations.readings, world, settings)
        effects.append(effect)
        if effect.outcome == "worse" and settings.roll_back and current.undo:
            until = world.at + settings.block_for
            rollbacks += _rollbacks(current, effect)
            blocked += [BlockedAction(wish.action, current.freed_capacity, until) for wish in current.wishes]
    rest = replace(evaluations, open=tuple(still_open))
    return EvaluationResult(rest, tuple(effects), tuple(rollbacks), tuple(blocked), unobserved)


def _can_be_judged(in_force_at: float, evaluations: Evaluations, world: World, settings: EvaluationSettings) -> bool:
    """Whether the window is over, and had enough batches; where no more come, not for ever."""
    after = [each.at for each in evaluations.readings if each.at > in_force_at]
    if len(after) >= settings.min_batches:
        return world.at >= in_force_at + settings.window
    return world.at >= max((in_force_at, *after)) + _MAX_WINDOWS_WITHOUT_BATCH * settings.window


def close_all(
    evaluations: Evaluations, world: World, settings: EvaluationSettings
) -> tuple[Evaluations, tuple[Effect, ...]]:
    """Judge all open decisions before a new one disturbs them. Too short a time leaves the outcome unclear."""
    effects = (_effect(each, evaluations.readings, world, settings) for each in evaluations.open)
    return replace(evaluations, open=()), tuple(
        replace(effect, outcome="unclear") if effect.outcome == "worse" else effect for effect in effects
    )


def merge_effects(decision: Decision, earlier: Mapping[int, Decision]) -> dict[int, Decision]:
    """What a journal has to write for a new decision, by id: itself, and the earlier ones whose effect it tells.

    A decision that is written again keeps its effect.
    """
    known = [effect for effect in decision.effects_of_earlier if effect.decision in earlier]
    changed = {effect.decision: earlier[effect.decision].with_effect(effect) for effect in known}
    same = earlier.get(decision.id)
    if decision.effect is None and same is not None and same.effect is not None and same.at == decision.at:
        decision = decision.with_effect(same.effect)
    return {**changed, decision.id: decision}


def _effect(evaluation: Evaluation, readings: Sequence[Reading], world: World, settings: EvaluationSettings) -> Effect:
    """Compare latency before and after."""
    start, metric = evaluation.in_force_at, world.target.metric
    after = [each for each in readings if start is not None and each.at > start]
    seconds = None if start is None else start - evaluation.at
    if min(len(after), len(evaluation.before)) < settings.min_batches:
        words = f"too few batches before or after it to tell{_what_came(evaluation, readings)}"
        return Effect(evaluation.decision, "unclear", words, metric, in_force_after=seconds)
    before, then = _median_latency(evaluation.before), _median_latency(after)
    outcome = _outcome(evaluation, after, world, settings)
    change = f"{metric} went from {format_number(before)} to {in_unit(metric, then)}"
    words = f"{change}: {outcome}{_what_came(evaluation, readings)}"
    return Effect(evaluation.decision, outcome, words, metric, before, then, seconds)


def _what_came(evaluation: Evaluation, readings: Sequence[Reading]) -> str:
    """The load that a decision was made for against what arrived then; nothing before it is due."""
    foreseen = next((wish.foreseen for wish in evaluation.wishes if wish.foreseen is not None), None)
    loads = [(each.at, each.load) for each in readings if each.load is not None]
    if foreseen is None or not loads or loads[-1][0] < foreseen.due:
        return ""
    came = next(load for at, load in loads if at >= foreseen.due)
    expected, seconds = format_number(round(foreseen.mean)), format_number(round(foreseen.ahead, 1))
    return f"; {expected} tuples/s were expected {seconds} s after it and {format_number(round(came))} came"


def _outcome(evaluation: Evaluation, after: Sequence[Reading], world: World, settings: EvaluationSettings) -> Outcome:
    before, then = _median_latency(evaluation.before), _median_latency(after)
    if then < before * (1 - settings.tolerance):
        return "better"
    more_load = _ratio((each.load for each in evaluation.before), (each.load for each in after))
    if more_load is not None and more_load > 1 + settings.tolerance:
        return "unclear"
    goal = world.target.latency
    if evaluation.freed_capacity:
        limit = before * (1 + settings.saving_tolerance) if goal is None else max(goal * 1000, before)
        return "worse" if then > limit * (1 + settings.tolerance) else "no clear change"
    third = max(1, len(after) // 3)
    rising = _median_latency(after[-third:]) > _median_latency(after[:third])
    speed = _ratio((each.speed for each in evaluation.before), (each.speed for each in after))
    slower = speed is not None and speed < 1 - settings.tolerance
    if not (then > before * (1 + settings.tolerance) and rising and slower):
        return "no clear change"
    return "unclear" if any(wish.within_batch for wish in evaluation.wishes) else "worse"


def _median_latency(readings: Sequence[Reading]) -> float:
    return median(each.latency for each in readings)


def _ratio(before: Iterable[float | None], after: Iterable[float | None]) -> float | None:
    old = [value for value in before if value is not None]
    new = [value for value in after if value is not None]
    return median(new) / median(old) if old and new and median(old) > 0 else None


def _rollbacks(evaluation: Evaluation, effect: Effect) -> list[Wish]:
    reason = f"decision {evaluation.decision} made things worse: {effect.words}"
    expected = Expectation("what it was before", effect.metric, effect.before)
    return [Wish(ROLLBACK, action, reason, expected) for action in evaluation.undo]


def _confirmed(evaluation: Evaluation, world: World) -> Evaluation:
    if evaluation.in_force_at is not None or not all(w.action.in_force(world.observed) for w in evaluation.wishes):
        return evaluation
    return replace(evaluation, in_force_at=world.at)


def _overdue(request: Request, world: World, settings: EvaluationSettings) -> bool:
    return world.at - request.at > settings.request_timeout + request.action.cost.seconds


def _latency(world: World) -> float | None:
    value = world.snapshot.value(world.target.metric)
    return world.snapshot.value("batch_duration_ms") if value is None else value


def _load(world: World) -> float | None:
    rates = [world.snapshot.value("arrival_rate", spout) for spout in world.setup.spouts]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else world.snapshot.value("input_rows_per_second")

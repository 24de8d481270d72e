"""What decisions brought: latency before and after, and a way back from those that made things worse.

A decision is on trial from the moment its actions are in force. Capacity that was given back made things worse if
latency left the target (or doubled, where there is none). Anything else did only if latency rose, keeps rising, and
batches got slower for the same load: latency alone also rises while a backlog is worked off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.amounts import gives_back
from foretide.control.actions.registry import Action
from foretide.control.decisions.decision import Effect, Expectation, Outcome, Wish
from foretide.control.guards import ROLLBACK
from foretide.control.memory import Block
from foretide.control.world.world import Request, World
from foretide.durations import Seconds


@dataclass(frozen=True, slots=True)
class EvaluationSettings(Bounded):
    """How the effect of a decision is evaluated, and when it is rolled back."""

    section: ClassVar[str] = "evaluation"

    window: Annotated[
        Seconds,
        Gt(0),
        Doc("Latency of this many seconds before a decision is compared with that after it is in force."),
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
    """What one batch showed: latency, tuples due a second, tuples a second that it worked off."""

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
    gave_back: bool
    before: tuple[Reading, ...]
    in_force_at: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Decisions on trial, and the readings they are judged by."""

    open: tuple[Evaluation, ...] = ()
    readings: tuple[Reading, ...] = ()
    batch: int | None = None

    def reading(self, world: World, settings: EvaluationSettings) -> Evaluations:
        """With what the last batch showed, if it is a new one."""
        latency = _latency(world)
        if latency is None or (world.batch is not None and world.batch == self.batch):
            return self
        new = Reading(world.at, latency, _load(world), world.snapshot.value("processed_rows_per_second"))
        old = bisect_right(self.readings, world.at - 2 * settings.window, key=lambda each: each.at)
        return Evaluations(self.open, (*self.readings[old:], new), world.batch)

    def opening(self, decision: int, wishes: Sequence[Wish], world: World, settings: EvaluationSettings) -> Evaluations:
        """With a decision that has just been taken."""
        undo = [wish.action.undo(world.observed) for wish in wishes if wish.policy != ROLLBACK]
        trial = Evaluation(
            decision,
            world.at,
            tuple(wishes),
            tuple(action for action in undo if action is not None),
            gave_back=all(gives_back(wish.action, world.observed) for wish in wishes),
            before=tuple(each for each in self.readings if each.at > world.at - settings.window),
        )
        return replace(self, open=(*self.open, trial))


@dataclass(frozen=True, slots=True)
class Followed:
    """What became of decisions: effects, wishes to go back, blocks, and requests that were never carried out."""

    trials: Evaluations
    effects: tuple[Effect, ...] = ()
    rollbacks: tuple[Wish, ...] = ()
    blocks: tuple[Block, ...] = ()
    lost: tuple[Request, ...] = field(default=())


def follow(trials: Evaluations, world: World, settings: EvaluationSettings) -> Followed:
    """Judge what can be judged by now."""
    trials = trials.reading(world, settings)
    lost = tuple(each for each in world.requested if _overdue(each, world, settings))
    given_up = {request.decision for request in lost}
    still: list[Evaluation] = []
    effects: list[Effect] = []
    rollbacks: list[Wish] = []
    blocks: list[Block] = []
    for trial in trials.open:
        if trial.decision in given_up:
            words = f"was not observed within {world.at - trial.at:.0f} s"
            effects.append(Effect(trial.decision, "never observed", words))
            continue
        running = _confirmed(trial, world)
        if running.in_force_at is None or world.at < running.in_force_at + settings.window:
            still.append(running)
            continue
        effect = judge(running, trials.readings, world, settings)
        effects.append(effect)
        if effect.verdict == "worse" and settings.roll_back and running.undo:
            rollbacks += _back(running, effect)
            blocks += [Block(w.action, running.gave_back, world.at + settings.block_for) for w in running.wishes]
    return Followed(replace(trials, open=tuple(still)), tuple(effects), tuple(rollbacks), tuple(blocks), lost)


def close(trials: Evaluations, world: World, settings: EvaluationSettings) -> tuple[Evaluations, tuple[Effect, ...]]:
    """Judge what is open before something new disturbs it; too short a time leaves it unclear."""
    effects = tuple(judge(trial, trials.readings, world, settings) for trial in trials.open)
    return replace(trials, open=()), tuple(
        replace(e, verdict="unclear") if e.verdict == "worse" else e for e in effects
    )


def judge(trial: Evaluation, readings: Sequence[Reading], world: World, settings: EvaluationSettings) -> Effect:
    """Compare latency before and after."""
    start = trial.in_force_at
    after = [each for each in readings if start is not None and each.at > start]
    took = None if start is None else start - trial.at
    if min(len(after), len(trial.before)) < settings.min_batches:
        words = "too few batches before or after it to tell"
        return Effect(trial.decision, "unclear", words, world.target.metric, in_force_after=took)
    before, then = _typical(trial.before), _typical(after)
    verdict = _verdict(trial, after, world, settings)
    words = f"{world.target.metric} went from {before:.4g} to {then:.4g}: {verdict}"
    return Effect(trial.decision, verdict, words, world.target.metric, before, then, took)


def _verdict(trial: Evaluation, after: Sequence[Reading], world: World, settings: EvaluationSettings) -> Outcome:
    before, then = _typical(trial.before), _typical(after)
    if then < before * (1 - settings.tolerance):
        return "better"
    more_load = _ratio([each.load for each in trial.before], [each.load for each in after])
    if more_load is not None and more_load > 1 + settings.tolerance:
        return "unclear"
    goal = world.target.latency
    if trial.gave_back:
        limit = before * (1 + settings.saving_tolerance) if goal is None else max(goal * 1000, before)
        return "worse" if then > limit * (1 + settings.tolerance) else "no clear change"
    third = max(1, len(after) // 3)
    rising = _typical(after[-third:]) > _typical(after[:third])
    speed = _ratio([each.speed for each in trial.before], [each.speed for each in after])
    slower = speed is not None and speed < 1 - settings.tolerance
    worse = then > before * (1 + settings.tolerance) and rising and slower
    return "worse" if worse else "no clear change"


def _typical(readings: Sequence[Reading]) -> float:
    return median(each.latency for each in readings)


def _ratio(before: Sequence[float | None], after: Sequence[float | None]) -> float | None:
    old = [value for value in before if value is not None]
    new = [value for value in after if value is not None]
    return median(new) / median(old) if old and new and median(old) > 0 else None


def _back(trial: Evaluation, effect: Effect) -> list[Wish]:
    reason = f"decision {trial.decision} made things worse: {effect.words}"
    expected = Expectation("what it was before", effect.metric, effect.before)
    return [Wish(ROLLBACK, action, reason, expected) for action in trial.undo]


def _confirmed(trial: Evaluation, world: World) -> Evaluation:
    if trial.in_force_at is not None or not all(wish.action.in_force(world.observed) for wish in trial.wishes):
        return trial
    return replace(trial, in_force_at=world.at)


def _overdue(request: Request, world: World, settings: EvaluationSettings) -> bool:
    return world.at - request.at > settings.request_timeout + request.action.cost.seconds


def _latency(world: World) -> float | None:
    value = world.snapshot.value(world.target.metric)
    return world.snapshot.value("batch_duration_ms") if value is None else value


def _load(world: World) -> float | None:
    rates = [world.snapshot.value("arrival_rate", spout) for spout in world.setup.spouts]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else world.snapshot.value("input_rows_per_second")

"""Takes bad workers out, and lets them back in by probing.

A worker that looks bad against its peers, against its own forecast or by its forecast gets a smaller share where its
tasks are known to stay with it, then no tasks at all. Spark places the tasks of stateless stages at random, so there
the only lever is quarantine. After a while it is let in on probation: what is then MEASURED says whether it stays, and
each failure doubles the wait before the next try.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from foretide.control.actions.registry import Action, Quarantine, Release, SetSplit
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.policies.worker_health import SYMPTOMS, HealthMetric, Suspicion, WorkerHealth
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import ControlSettingError

Phase = Literal["watched", "out", "probation"]

_GAIN = 1.25


@dataclass(frozen=True, slots=True)
class BypassSettings:
    """When a worker is bad, and when it is good again.

    Attributes:
        symptoms: Metrics that are high when something is wrong.
        slow: From so many times its reference on, a worker is suspect: a smaller share, and out if it lasts.
        bad: From so many times its reference on, it is taken out at once.
        patience: Looks in a row that a suspect may have before it is taken out.
        keep: Share of the live workers that stays in service whatever happens; at least one does.
        first_wait: Seconds out before the first probe; doubles with every failed one.
        longest_wait: Seconds that it never exceeds.
        regret: If latency has risen so many times since a worker was taken out, it is probed without that wait: it may
            not have been the culprit, or is needed all the same.
        probation: Seconds for which a worker must look well after it was let in.
        fresh: Seconds after which a figure is too old to be judged by.
        horizon: Seconds ahead at which a bad forecast is a reason too; None acts on what is measured only.
    """

    symptoms: tuple[HealthMetric, ...] = SYMPTOMS
    slow: float = 1.75
    bad: float = 2.5
    patience: int = 2
    keep: float = 0.5
    first_wait: Seconds = 300.0
    longest_wait: Seconds = 1800.0
    regret: float = 3.0
    probation: Seconds = 30.0
    fresh: Seconds = 60.0
    horizon: Seconds | None = 15.0

    def __post_init__(self) -> None:
        times = (self.first_wait, self.longest_wait - self.first_wait, self.probation, self.fresh, self.horizon or 0.0)
        if not 1 < self.slow <= self.bad or self.patience < 1 or not 0 <= self.keep <= 1 or min(times) < 0:
            raise ControlSettingError(
                f"bypass: {self} makes no sense; 1 < slow <= bad, keep in 0..1, waits in order, nothing negative"
            )


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker that is being looked after.

    Attributes:
        phase: Watched, out, or in again on probation.
        since: When that began.
        seen: When it was seen in that phase last.
        strikes: Bad looks in a row.
        failures: Probes that it has failed.
        shares: Weights of edges from before it got a smaller share.
        latency: What was held when it was taken out, in milliseconds, if that was known.
    """

    phase: Phase
    since: float
    seen: float = 0.0
    strikes: int = 0
    failures: int = 0
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    latency: float | None = None


Cases = Mapping[str, WorkerRecord]


@dataclass(frozen=True, slots=True)
class Bypass:
    """Keeps work away from workers that misbehave, or are about to."""

    settings: BypassSettings = field(default_factory=BypassSettings)
    name: str = "bypass"

    def start(self) -> Cases:
        """All are well."""
        return {}

    def wish(self, state: Cases, world: World) -> tuple[Cases, list[Wish]]:
        """Look at every worker; take out the worst, and let in those whose time has come."""
        if not world.setup.can_quarantine:
            return {}, []
        cases = self._brought_up_to_date(state, world)
        probing = {worker: case.since for worker, case in cases.items() if case.phase == "probation"}
        ward = WorkerHealth(self.settings.symptoms, self.settings.fresh, self.settings.horizon)
        looks = ward.looks(world, probing)
        after: dict[str, WorkerRecord] = {}
        wishes: list[Wish] = []
        room = self._room(world)
        for worker in sorted(world.observed.executors, key=lambda name: -looks[name].ratio if name in looks else 0.0):
            if world.observed.is_drained(worker):
                continue
            case, wish = self._advance(worker, cases.get(worker), looks.get(worker), world)
            if wish is not None and isinstance(wish.action, Quarantine):
                room -= 1
                wish = wish if room >= 0 else None
            after |= {} if case is None else {worker: case}
            wishes += [] if wish is None else [wish]
        return after, wishes

    def _brought_up_to_date(self, state: Cases, world: World) -> dict[str, WorkerRecord]:
        """What is observed goes before what was wished for; those taken out by an earlier loop are taken over."""
        cases: dict[str, WorkerRecord] = {}
        for worker in world.observed.executors:
            case, out = state.get(worker), worker in world.observed.quarantined
            if out and (case is None or case.phase != "out"):
                failures = 0 if case is None else case.failures + (case.phase == "probation")
                case = WorkerRecord(
                    "out", world.at, failures=failures, latency=world.snapshot.value(world.target.metric)
                )
            elif not out and case is not None and case.phase == "out":
                case = replace(case, phase="probation", since=case.seen, strikes=0)  # it worked from then on
            if case is not None:
                cases[worker] = replace(case, seen=world.at)
        return cases

    def _room(self, world: World) -> int:
        """How many more workers may be taken out."""
        asked = {request.action.worker for request in world.requested if isinstance(request.action, Quarantine)}
        serving = len(world.observed.in_service - asked)
        return serving - max(1, math.ceil(self.settings.keep * len(world.observed.executors)))

    def _advance(
        self, worker: str, case: WorkerRecord | None, look: Suspicion | None, world: World
    ) -> tuple[WorkerRecord | None, Wish | None]:
        if case is not None and case.phase == "out":
            return case, self._probe(worker, case, world)
        if look is None:
            return case, None
        if case is not None and case.phase == "probation":
            return self._judge(worker, case, look, world)
        return self._watch(worker, case, look, world)

    def _probe(self, worker: str, case: WorkerRecord, world: World) -> Wish | None:
        wait = min(self.settings.first_wait * 2**case.failures, self.settings.longest_wait)
        if world.at - case.since < wait:
            return self._regretted(worker, case, world)
        tried = f" after {case.failures} failed probes" if case.failures else ""
        reason = f"it has been out for {world.at - case.since:.0f} s{tried}: tries whether it is well"
        return Wish(self.name, Release(worker), reason, Expectation("it keeps up with its peers"))

    def _regretted(self, worker: str, case: WorkerRecord, world: World) -> Wish | None:
        """Let it in early if things got much worse without it, and it has not failed a probe yet."""
        now = world.snapshot.value(world.target.metric, within=self.settings.fresh)
        if case.failures or case.latency is None or now is None or now < self.settings.regret * case.latency:
            return None
        reason = f"{world.target.metric} rose from {case.latency:.4g} to {now:.4g} without it: tries whether it is well"
        return Wish(self.name, Release(worker), reason, Expectation("it keeps up with its peers"))

    def _judge(
        self, worker: str, case: WorkerRecord, look: Suspicion, world: World
    ) -> tuple[WorkerRecord | None, Wish | None]:
        """On probation what is measured decides; a forecast made while it was out is none."""
        if look.ratio >= self.settings.slow and not look.foreseen:
            return case, self._out(worker, look, f"it is on probation, and {look.words}")
        if world.at - case.since < self.settings.probation:
            return case, None
        return (replace(case, phase="watched", since=world.at) if case.failures else None), None

    def _memory(self, case: WorkerRecord) -> float:
        """How long failed probes are remembered after a good one."""
        return self.settings.first_wait * 2**case.failures if case.failures else 0.0

    def _watch(
        self, worker: str, case: WorkerRecord | None, look: Suspicion, world: World
    ) -> tuple[WorkerRecord | None, Wish | None]:
        before = case or WorkerRecord("watched", world.at)
        worth = _worth(len(world.observed.in_service))
        if look.ratio < max(self.settings.slow, worth):
            return self._well(before, world)
        seen = replace(before, strikes=before.strikes + 1, since=world.at)
        if look.ratio >= max(self.settings.bad, worth) or seen.strikes >= self.settings.patience:
            return seen, self._out(worker, look, look.words)
        return self._less(worker, seen, look, world)

    def _well(self, case: WorkerRecord, world: World) -> tuple[WorkerRecord | None, Wish | None]:
        wish = None
        for edge, weights in case.shares.items():
            wish = Wish(self.name, SetSplit(edge, weights), "its worker keeps up again: the share it had before")
        remembered = world.at - case.since < self._memory(case)
        return (replace(case, strikes=0, shares={}) if remembered else None), wish

    def _less(self, worker: str, case: WorkerRecord, look: Suspicion, world: World) -> tuple[WorkerRecord, Wish | None]:
        """A smaller share on an edge whose tasks are known to stay with their workers."""
        for edge, places in world.observed.placements.items():
            weights = world.observed.routes.get(edge, ())
            mine = [task for task, weight in enumerate(weights) if weight > 0 and places[task : task + 1] == (worker,)]
            rest = sum(weight for task, weight in enumerate(weights) if task not in mine)
            if edge not in case.shares and mine and rest > 0:
                new = tuple(w / look.ratio if task in mine else w for task, w in enumerate(weights))
                action: Action = SetSplit(edge, new)
                kept = replace(case, shares={**case.shares, edge: weights})
                reason = f"worker {worker} is slow: {look.words}"
                return kept, Wish(self.name, action, reason, Expectation("its tasks end with those of its peers"))
        return case, None

    def _out(self, worker: str, look: Suspicion, words: str) -> Wish:
        expected = Expectation(f"stages no longer wait for it: up to {look.ratio:.1f} times as fast", "latency_p99_ms")
        return Wish(self.name, Quarantine(worker), words, expected)


def _worth(serving: int) -> float:
    """From how many times its peers on it pays to do without a worker: its work makes the others slower.

    >>> [round(_worth(workers), 2) for workers in (2, 3, 6)]
    [2.5, 1.88, 1.5]
    """
    return _GAIN * serving / (serving - 1) if serving > 1 else math.inf

"""Takes bad workers out of service, and lets them back in by probing.

A worker that is much slower than its peers, than its own forecast, or by its forecast gets no tasks. In micro-batches
Spark places the tasks of stateless stages at random, so there the only action is quarantine; in real time tasks stay,
and a worker gets a smaller share first: see `rerouting`. After a while a worker that is out is let in on probation:
what is then MEASURED decides whether it stays, and each failure doubles the wait before the next probe.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from foretide.control.actions.registry import Quarantine, Release
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.policies.rerouting import Rerouting
from foretide.control.policies.worker_cases import WorkerCase, kept_cases, recalled_records
from foretide.control.policies.worker_health import Suspicion, WorkerHealth
from foretide.control.policies.worker_records import BypassSettings, WorkerRecord, WorkerRecords
from foretide.control.policies.worker_shares import Patience
from foretide.control.world.setup import Observed
from foretide.control.world.world import World

_MIN_GAIN = 1.25

__all__ = ["Bypass", "BypassSettings", "WorkerRecord", "WorkerRecords"]


@dataclass(frozen=True, slots=True)
class Bypass:
    """Keeps work away from workers that are slow, or are forecast to be."""

    settings: BypassSettings = field(default_factory=BypassSettings)
    name: str = "bypass"

    def start(self) -> WorkerRecords:
        """No worker is suspect."""
        return {}

    def cases(
        self, before: Iterable[WorkerCase], state: WorkerRecords, observed: Observed, at: float
    ) -> tuple[WorkerCase, ...]:
        """What is to be remembered over a restart of the driver."""
        return kept_cases(before, state, observed, at)

    def recall(self, cases: Iterable[WorkerCase], observed: Observed, at: float) -> WorkerRecords:
        """The state to begin with after a restart of the driver."""
        return recalled_records(cases, observed, at)

    def wish(self, state: WorkerRecords, world: World) -> tuple[WorkerRecords, list[Wish]]:
        """Compare all workers; take out the worst, and probe those that have waited long enough."""
        if world.setup.mode == "pipeline" and world.observed.placements:
            return self._reroute(state, world)
        if not world.setup.can_quarantine:
            return {}, []
        records = self._updated(state, world)
        probing = {worker: record.since for worker, record in records.items() if record.phase == "probation"}
        health = WorkerHealth(self.settings.health_metrics, self.settings.max_age, self.settings.horizon)
        suspicions = health.suspicions(world, probing)
        ratios = {worker: suspicion.ratio for worker, suspicion in suspicions.items()}
        after: dict[str, WorkerRecord] = {}
        wishes: list[Wish] = []
        room, patience = self._room(world), Patience(self.settings, world)
        for worker in sorted(world.observed.executors, key=lambda name: -ratios.get(name, 0.0)):
            if world.observed.is_drained(worker):
                continue
            record, wish = self._advance(worker, records.get(worker), suspicions.get(worker), patience)
            if wish is not None and isinstance(wish.action, Quarantine):
                room -= 1
                wish = wish if room >= 0 else None
            after |= {} if record is None else {worker: record}
            wishes += [] if wish is None else [wish]
        return after, wishes

    def _reroute(self, state: WorkerRecords, world: World) -> tuple[WorkerRecords, list[Wish]]:
        """Where tasks stay with their workers, first a smaller share, which is in force at once; then quarantine.

        Workers that are out are probed as ever; those that were let in again are compared like all others.
        """
        room = self._room(world)
        records, wishes = Rerouting(self.settings, self.name).wish(self._updated(state, world), world, room)
        for worker, record in records.items():
            probe = self._probe(worker, record, world) if record.phase == "out" else None
            if probe is not None and not world.observed.is_drained(worker):
                wishes.append(probe)
        return records, wishes

    def _updated(self, state: WorkerRecords, world: World) -> dict[str, WorkerRecord]:
        """What is observed overrides what was wished for; workers that an earlier loop took out are adopted."""
        records: dict[str, WorkerRecord] = {}
        for worker in world.observed.executors:
            record, out = state.get(worker), worker in world.observed.quarantined
            if out and (record is None or record.phase != "out"):
                failures = 0 if record is None else record.failures + (record.phase == "probation")
                latency = world.snapshot.value(world.target.metric)
                record = WorkerRecord("out", world.at, failures=failures, latency=latency)
            elif not out and record is not None and record.phase == "out":
                record = replace(record, phase="probation", since=record.seen, strikes=0)  # it has worked since then
            if record is not None:
                records[worker] = replace(record, seen=world.at)
        return records

    def _room(self, world: World) -> int:
        """How many more workers may be taken out."""
        requested = {request.action.worker for request in world.requested if isinstance(request.action, Quarantine)}
        serving = len(world.observed.in_service - requested)
        return serving - max(1, math.ceil(self.settings.min_in_service * len(world.observed.executors)))

    def _advance(
        self, worker: str, record: WorkerRecord | None, suspicion: Suspicion | None, patience: Patience
    ) -> tuple[WorkerRecord | None, Wish | None]:
        world = patience.world
        if record is not None and record.phase == "out":
            return record, self._probe(worker, record, world)
        if suspicion is None:
            return record, None
        if record is not None and record.phase == "probation":
            return self._on_probation(worker, record, suspicion, world)
        return self._watched(worker, record or WorkerRecord("watched", world.at), suspicion, patience)

    def _probe(self, worker: str, record: WorkerRecord, world: World) -> Wish | None:
        wait = min(self.settings.first_wait * 2**record.failures, self.settings.max_wait)
        if world.at - record.since < wait:
            return self._early_release(worker, record, world)
        failed = f" after {record.failures} failed probes" if record.failures else ""
        reason = f"it has been out for {world.at - record.since:.0f} s{failed}: tries whether it is healthy"
        return Wish(self.name, Release(worker), reason, Expectation("it keeps up with its peers"))

    def _early_release(self, worker: str, record: WorkerRecord, world: World) -> Wish | None:
        """Release it early if latency got much worse without it, and it has not failed a probe yet."""
        before, now = record.latency, world.snapshot.value(world.target.metric, within=self.settings.max_age)
        if record.failures or before is None or now is None or now < self.settings.early_release_factor * before:
            return None
        reason = f"{world.target.metric} rose from {before:.4g} to {now:.4g} without it: tries whether it is healthy"
        return Wish(self.name, Release(worker), reason, Expectation("it keeps up with its peers"))

    def _on_probation(
        self, worker: str, record: WorkerRecord, suspicion: Suspicion, world: World
    ) -> tuple[WorkerRecord | None, Wish | None]:
        """On probation what is measured decides; a forecast that was made while it was out says nothing."""
        if suspicion.ratio >= self.settings.slow and not suspicion.forecast:
            return record, self._take_out(worker, suspicion, f"it is on probation, and {suspicion.description}")
        if world.at - record.since < self.settings.probation:
            return record, None
        return (replace(record, phase="watched", since=world.at) if record.failures else None), None

    def _watched(
        self, worker: str, record: WorkerRecord, suspicion: Suspicion, patience: Patience
    ) -> tuple[WorkerRecord | None, Wish | None]:
        world = patience.world
        min_ratio = _min_ratio(len(world.observed.in_service))
        if suspicion.ratio < max(self.settings.slow, min_ratio):
            return self._healthy(record, world), None
        record = replace(record, strikes=record.strikes + 1, since=world.at)
        enough = patience.of(worker)
        at_once = enough == self.settings.patience and suspicion.ratio >= max(self.settings.bad, min_ratio)
        if at_once or record.strikes >= enough:
            return record, self._take_out(worker, suspicion, suspicion.description)
        return record, None

    def _healthy(self, record: WorkerRecord, world: World) -> WorkerRecord | None:
        """Forget it, unless it has failed probes not long ago."""
        kept_for = self.settings.first_wait * 2**record.failures if record.failures else 0.0
        return replace(record, strikes=0) if world.at - record.since < kept_for else None

    def _take_out(self, worker: str, suspicion: Suspicion, reason: str) -> Wish:
        effect = f"stages no longer wait for it: up to {suspicion.ratio:.1f} times as fast"
        expected = Expectation(effect, "latency_p99_ms")
        return Wish(self.name, Quarantine(worker), reason, expected, within_batch=suspicion.running)


def _min_ratio(serving: int) -> float:
    """The ratio to its peers from which it pays to do without a worker: its work makes the others slower.

    >>> [round(_min_ratio(workers), 2) for workers in (2, 3, 6)]
    [2.5, 1.88, 1.5]
    """
    return _MIN_GAIN * serving / (serving - 1) if serving > 1 else math.inf

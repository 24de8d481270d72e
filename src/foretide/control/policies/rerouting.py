"""Bypass by ratio: where tasks stay with their workers, a split keeps tuples away from a slow one within two cycles.

A worker is slow if its tuples take much longer than the same tuples on its peers, or are forecast to, in two reports in
a row, or in eight where all workers wait for cores alike: one bad second says nothing, and what slows all workers makes
none suspect. A slow worker's tasks get a share in inverse proportion to the time that they take. From `bad` on they get
next to nothing, just enough tuples to see when the worker is healthy again, unless the others are so busy that tuples
wait less with that share (`share_model`). Sources and state stay where they are until the next batch; a worker that is
still slow is then taken out if the target is missed and there are slots enough without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from foretide.control.actions.registry import Quarantine, SetSplit
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.policies.worker_health import Suspicion, WorkerHealth
from foretide.control.policies.worker_records import BypassSettings, WorkerRecord
from foretide.control.policies.worker_shares import (
    MAX_AGE,
    Patience,
    compare_tasks,
    others_should_carry,
    split_without,
    was_reset,
)
from foretide.control.world.world import World

Records = dict[str, WorkerRecord]


@dataclass(frozen=True, slots=True)
class Rerouting:
    """Keeps tuples away from slow workers by the splits of edges."""

    settings: BypassSettings
    name: str

    def wish(self, records: Records, world: World, room: int) -> tuple[Records, list[Wish]]:
        """What is remembered of workers, and the splits and quarantines that follow.

        Args:
            records: Of workers that are or were suspect.
            world: With placements.
            room: How many workers may be out of service or get next to nothing, at most.
        """
        since = {worker: record.since for worker, record in records.items() if record.phase == "probation"}
        health = WorkerHealth(self.settings.health_metrics, MAX_AGE, self.settings.horizon).suspicions(world, since)
        tasks = compare_tasks(world, since=since)
        probed = compare_tasks(world, since=since, min_tuples=1)
        patience = Patience(self.settings, world)
        healthy = world.observed.in_service - {name for name, each in records.items() if each.phase == "rerouted"}
        after: Records = {}
        words: dict[str, str] = {}
        for worker in world.observed.executors:
            record = records.get(worker)
            if world.observed.is_drained(worker):
                continue
            if record is not None and record.phase == "out":
                after[worker] = record
                continue
            new: WorkerRecord | None
            if record is not None and record.phase == "rerouted":
                found = _worst(probed.get(worker), _forecast(health.get(worker)))
                busy_core = patience.waiting.get(worker, 1.0) >= self.settings.slow
                new = self._rerouted(record, probed.get(worker), found, world, busy_core=busy_core)
            elif len(healthy) <= (worker in healthy):  # no other has its usual share
                found, new = None, record  # next to no tuples tell too little of the others to compare it with them
            else:
                own, known = tasks.get(worker), health.get(worker)
                found = known if own is None else _worst(own, _forecast(known))  # tasks tell best what it measures
                new = self._watched(worker, record or WorkerRecord("watched", world.at), found, patience)
            after |= {} if new is None else {worker: new}
            words |= {} if found is None else {worker: found.description}
        after, splits = self._splits(after, words, world, room)
        return after, [*splits, *self._quarantines(after, probed, health, world, room)]

    # ---- one worker

    def _watched(
        self, worker: str, record: WorkerRecord, found: Suspicion | None, patience: Patience
    ) -> WorkerRecord | None:
        world = patience.world
        if found is None:
            return record if record.strikes or record.failures or record.shares else None
        if found.ratio < self.settings.slow:
            kept_for = self.settings.first_wait * 2**record.failures if record.rerouted is not None else 0.0
            forget = world.at - record.since >= kept_for and not record.shares
            return None if forget else replace(record, phase="watched", strikes=0)
        record = replace(record, phase="watched", strikes=record.strikes + 1)
        if record.strikes < patience.of(worker):
            return record
        again = record.rerouted is not None
        return replace(
            record,
            phase="rerouted",
            since=world.at,
            strikes=0,
            failures=record.failures + again,
            rerouted=world.at,
            ratio=self._counted(found),
        )

    def _counted(self, found: Suspicion) -> float:
        """What counts for its share: by a forecast alone no worker gets next to nothing."""
        return min(found.ratio, 0.999 * self.settings.bad) if found.forecast else found.ratio

    def _rerouted(
        self,
        record: WorkerRecord,
        measured: Suspicion | None,
        found: Suspicion | None,
        world: World,
        *,
        busy_core: bool,
    ) -> WorkerRecord:
        """Its share is smaller. It gets it back after some time in which it was measured, and found healthy.

        With few tuples it may seem to be, while others use its core: then it waits on.
        """
        settings = self.settings
        if found is not None and found.ratio >= settings.slow:
            return replace(record, since=world.at, ratio=max(record.ratio, self._counted(found)))
        if busy_core:
            return replace(record, since=world.at)
        wait = settings.healthy_for if measured is not None else settings.first_wait
        enough = world.at - record.since >= min(wait * 2**record.failures, settings.max_wait)
        healthy = measured is None or measured.ratio < (1 + settings.slow) / 2
        return replace(record, phase="watched", since=world.at, ratio=1.0) if enough and healthy else record

    # ---- splits

    def _splits(
        self, records: Records, words: Mapping[str, str], world: World, room: int
    ) -> tuple[Records, list[Wish]]:
        slow = {worker: record.ratio for worker, record in records.items() if record.phase == "rerouted"}
        leaving = {asked.action.worker for asked in world.requested if isinstance(asked.action, Quarantine)}
        others = sorted(slow.keys() - leaving, key=lambda worker: -slow[worker])
        worst = frozenset((leaving & slow.keys()) | set(others[: max(room, 0)]))  # those that leave are not in `room`
        kept: dict[str, tuple[float, ...]] = {}
        wishes: list[Wish] = []
        for edge, places in world.observed.placements.items():
            mine = {worker: ratio for worker, ratio in slow.items() if worker in places}
            known = next((record.shares[edge] for record in records.values() if edge in record.shares), None)
            if edge not in world.setup.by_edge or (not mine and known is None):
                continue
            factors = self._factors(mine, worst, edge, world)
            now = world.observed.routes.get(edge, ())
            before = now if known is None or len(known) != len(now) or was_reset(world, edge, factors) else known
            weights = split_without(world, edge, factors, self.settings.probe_share, before)
            if mine or weights is not None:
                kept[edge] = before
            if weights is not None:
                wishes.append(self._split(edge, weights, mine, words, world))
        return {
            worker: replace(record, shares=kept if record.phase == "rerouted" or not slow else {})
            for worker, record in records.items()
        }, wishes

    def _factors(self, slow: Mapping[str, float], worst: frozenset[str], edge: str, world: World) -> dict[str, float]:
        """The part of the usual share that tasks on slow workers keep."""
        bad = frozenset(worker for worker in worst if slow.get(worker, 0.0) >= self.settings.bad)
        bad = bad if bad and others_should_carry(world, edge, slow, bad) else frozenset()
        return {worker: 0.0 if worker in bad else 1 / ratio for worker, ratio in slow.items()}

    def _split(
        self, edge: str, weights: tuple[float, ...], slow: Mapping[str, float], words: Mapping[str, str], world: World
    ) -> Wish:
        action = SetSplit(edge, weights)
        if not slow:
            return Wish(self.name, action, "its workers keep up again: the shares that they had before")
        reasons = [f"worker {worker} is slow" + (f" ({words[worker]})" if worker in words else "") for worker in slow]
        expected = Expectation("tuples no longer wait for slow workers", world.target.metric)
        return Wish(self.name, action, "; ".join(reasons), expected, urgent=True)

    # ---- quarantine

    def _quarantines(
        self,
        records: Records,
        measured: Mapping[str, Suspicion],
        health: Mapping[str, Suspicion],
        world: World,
        room: int,
    ) -> list[Wish]:
        """Take out the worst of those whose sources or state tasks still make the query wait."""
        if room <= 0 or not _slots_suffice(world) or all(part.edge for part in world.setup.operators):
            return []
        late = [
            (found.ratio, worker, found.description)
            for worker, found in measured.items()
            if worker in records
            and self._is_late(records[worker], found, world)
            and self._is_not_enough(health.get(worker), world)
        ]
        if not late:
            return []
        ratio, worker, description = max(late)
        reason = f"a smaller share is not enough: {description}, and its sources and state tasks stay where they are"
        effect = f"from the next batch on nothing waits for it: up to {ratio:.1f} times as fast"
        return [Wish(self.name, Quarantine(worker), reason, Expectation(effect, world.target.metric))]

    def _is_late(self, record: WorkerRecord, found: Suspicion, world: World) -> bool:
        since = record.rerouted
        if record.phase != "rerouted" or since is None or found.ratio < self.settings.slow:
            return False
        return world.at - since >= self.settings.quarantine_after

    def _is_not_enough(self, found: Suspicion | None, world: World) -> bool:
        """Whether latency is above the target. Without one, whether all its tasks together are still slow."""
        if world.target.latency is None:
            return found is not None and not found.forecast and found.ratio >= self.settings.slow
        latency = world.snapshot.value(world.target.metric, within=MAX_AGE)
        return latency is not None and latency > world.target.latency * 1000


def _worst(*found: Suspicion | None) -> Suspicion | None:
    return max((each for each in found if each is not None), key=lambda each: each.ratio, default=None)


def _forecast(found: Suspicion | None) -> Suspicion | None:
    return found if found is not None and found.forecast else None


def _slots_suffice(world: World) -> bool:
    """Whether all tasks, which run at the same time, have slots without one of the workers in service."""
    slots = (len(world.observed.in_service) - 1) * world.setup.cores_per_executor
    needed = world.setup.slots or sum(part.pool for part in world.setup.operators)
    return world.setup.can_quarantine and slots >= needed

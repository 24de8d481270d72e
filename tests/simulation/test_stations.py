"""Stations against a plain event-driven reference that shares no code with them."""

import math
from collections import deque

import numpy as np
import pytest

from foretide.simulation.routes import RouteChange, Router
from foretide.simulation.workers import (
    Outage,
    RoutedStation,
    SharedStation,
    Slowdown,
    UnevenStation,
    WorkerTimeline,
    timelines,
)


class Reference:
    """One queue, explicit events, workers with explicit states; looks at every moment of change."""

    def __init__(self, workers, slowdowns=(), outages=()):
        self.slowdowns, self.outages = slowdowns, outages
        self.idle_since = dict.fromkeys(range(workers), 0.0)

    def speed(self, worker, time):
        return math.prod(s.speed for s in self.slowdowns if s.worker == worker and s.start <= time < s.end)

    def gone(self, worker, time):
        return any(o.worker == worker and o.start <= time < o.end for o in self.outages)

    def run(self, arrivals, works):
        moments = {edge for event in (*self.slowdowns, *self.outages) for edge in (event.start, event.end)}
        changes = sorted(moments | set(arrivals))
        queue, running, ends = deque(), {}, {}
        now, joined = 0.0, 0
        while len(ends) < len(arrivals):
            while queue and self.free_workers(now, running):
                worker = min(self.free_workers(now, running), key=lambda w: (self.idle_since[w], w))
                tuple_ = queue.popleft()
                running[worker] = (tuple_, works[tuple_])
            later = [t for t in changes if t > now]
            finishes = [
                now + left / self.speed(w, now) if self.speed(w, now) else math.inf for w, (_, left) in running.items()
            ]
            then = min([*later[:1], *finishes])
            for worker, (tuple_, left) in list(running.items()):
                rest = left - (then - now) * self.speed(worker, now)
                running[worker] = (tuple_, rest)
                if rest <= 1e-9:
                    del running[worker]
                    ends[tuple_] = then
                    self.idle_since[worker] = then
            now = then
            while joined < len(arrivals) and arrivals[joined] <= now:
                queue.append(joined)
                joined += 1
            for outage in self.outages:
                if outage.start == now and outage.worker in running:
                    queue.append(running.pop(outage.worker)[0])
                if outage.end == now:
                    self.idle_since[outage.worker] = now
        return [ends[i] for i in range(len(arrivals))]

    def free_workers(self, now, running):
        return [w for w in self.idle_since if w not in running and not self.gone(w, now)]


def admitted(station, arrivals, works):
    """Admit in order of joining; what is lost joins again."""
    waiting = sorted((time, i) for i, time in enumerate(arrivals))
    ends = {}
    while waiting:
        time, i = waiting.pop(0)
        _, end, lost = station.admit(time, works[i])
        if lost:
            waiting = sorted([*waiting, (end, i)])
        else:
            ends[i] = end
    return [ends[i] for i in range(len(arrivals))]


def case(seed):
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(1, 5))
    arrivals = np.cumsum(rng.exponential(size=120) / workers)
    works = rng.exponential(size=120) * 0.9
    return rng, workers, arrivals, works


def disturbances(rng, workers):
    def interval():
        start = float(rng.uniform(0, 100))
        return start, start + float(rng.uniform(0.5, 15))

    slowdowns = [
        Slowdown(int(rng.integers(workers)), *interval(), float(rng.choice([0.0, 0.3, 2.0]))) for _ in range(3)
    ]
    outages = [Outage(worker, *interval()) for worker in range(workers) if rng.random() < 0.7]
    return slowdowns, outages


@pytest.mark.parametrize("seed", range(15))
def test_shared_queue_against_the_reference(seed):
    _, workers, arrivals, works = case(seed)
    expected = Reference(workers).run(arrivals.tolist(), works.tolist())
    assert SharedStation(workers).serve(arrivals, works) + works == pytest.approx(expected)
    assert admitted(SharedStation(workers), arrivals, works) == pytest.approx(expected)
    assert admitted(UnevenStation(workers, {}), arrivals, works) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(40))
def test_slow_and_lost_workers_against_the_reference(seed):
    rng, workers, arrivals, works = case(seed)
    slowdowns, outages = disturbances(rng, workers)
    expected = Reference(workers, slowdowns, outages).run(arrivals.tolist(), works.tolist())
    station = UnevenStation(workers, timelines(slowdowns, outages))
    assert admitted(station, arrivals.tolist(), works.tolist()) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(10))
def test_routed_tasks_are_queues_of_their_own(seed):
    _, _, arrivals, works = case(seed)
    routes = [RouteChange((3.0, 0.0, 1.0)), RouteChange((0.0, 1.0, 1.0), since=30.0)]
    tasks = Router(routes, np.random.default_rng(seed)).assign(arrivals)
    station = RoutedStation(3, Router(routes, np.random.default_rng(seed)), {})
    ends = station.serve(arrivals, works) + works
    for task in range(3):
        mine = tasks == task
        expected = Reference(1).run(arrivals[mine].tolist(), works[mine].tolist())
        assert ends[mine] == pytest.approx(expected)


def test_routed_task_that_is_gone_loses_only_what_it_works_on():
    station = RoutedStation(
        2, Router([RouteChange((1.0, 0.0))], np.random.default_rng(1)), timelines([], [Outage(0, 1.0, 5.0)])
    )
    assert station.admit(0.5, 2.0) == (0.5, 1.0, True)
    assert station.admit(0.6, 2.0) == (5.0, 7.0, False), "what waits for the task waits until it is back"


@pytest.mark.parametrize("spread", ["random", "even"])
def test_routes_follow_their_weights(spread):
    router = Router([RouteChange((4.0, 3.0, 0.0, 1.0), spread=spread)], np.random.default_rng(3))
    counts = np.bincount(router.assign(np.zeros(8000)), minlength=4)
    slack = 10 if spread == "even" else 200
    assert np.abs(counts - [4000, 3000, 0, 1000]).max() <= slack
    assert counts[2] == 0


def test_one_at_a_time_follows_the_same_even_turns():
    routes = [RouteChange((2.0, 1.0, 1.0), spread="even")]
    together = Router(routes, np.random.default_rng(1)).assign(np.zeros(50))
    singly = Router(routes, np.random.default_rng(1))
    assert [singly.assign_one(0.0) for _ in range(50)] == together.tolist()


def test_overlapping_events_of_a_worker_combine():
    timeline = WorkerTimeline(
        [Slowdown(0, 0.0, 10.0, 0.5), Slowdown(0, 5.0, 20.0, 0.5)],
        [Outage(0, 30.0, 40.0), Outage(0, 35.0, 50.0)],
    )
    assert timeline.finish(4.0, 1.0) == (7.0, False)
    assert timeline.ready(33.0) == 50.0

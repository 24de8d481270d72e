"""PA-SPS as a model of queues: replicas of operators, planned every td seconds by `foretide.planning.replicas`.

Events are amounts, second by second. A queue keeps what it is given: events beyond its limit, and those that took
longer than the time-out, are counted as what Storm would lose, and processed all the same. A restart stops all
operators.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from foretide.planning.replicas import ReplicaFlow, ReplicaInput, plan_replicas

TD, TIME_OUT, QUEUE_LIMIT = 30, 30.0, 100_000.0
History = Sequence[float]
Forecaster = Callable[[History], float]
"""From the mean rates of all intervals so far, that of the next."""


@dataclass(frozen=True)
class Application:
    """Operators in the order in which events pass them: seconds an event takes, and what they send to whom."""

    seconds: Mapping[str, float]
    flows: Mapping[tuple[str, str], float]
    pool: int

    @property
    def source(self) -> str:
        """The first operator."""
        return next(iter(self.seconds))

    def visits(self) -> dict[str, float]:
        """Events at each operator for one that enters."""
        found = dict.fromkeys(self.seconds, 0.0) | {self.source: 1.0}
        for name in self.seconds:
            for (start, end), gain in self.flows.items():
                if start == name:
                    found[end] += found[name] * gain
        return found

    def needed(self, rate: float) -> int:
        """Replicas that a rate needs, without limit of the pool."""
        visits = self.visits()
        return sum(max(1, math.ceil(rate * visits[name] * each - 1e-9)) for name, each in self.seconds.items())


def linear(peak: float, operators: int = 4, pool: int = 8) -> Application:
    """Operators in a row, each of which needs its whole pool at the peak."""
    names = [f"o{place}" for place in range(1, operators + 1)]
    flows = dict.fromkeys(pairwise(names), 1.0)
    return Application(dict.fromkeys(names, pool / peak), flows, pool)


@dataclass
class Queue:
    """What waits at an operator, in the order of arrival: when it entered the application, and how much of it."""

    waiting: deque[tuple[float, float]] = field(default_factory=deque)
    length: float = 0.0
    over_limit: float = 0.0

    def put(self, birth: float, amount: float) -> None:
        """Take events in; those beyond the limit are counted."""
        if amount > 0:
            self.over_limit += min(amount, max(0.0, self.length + amount - QUEUE_LIMIT))
            self.waiting.append((birth, amount))
            self.length += amount

    def take(self, most: float) -> list[tuple[float, float]]:
        """The oldest events, up to an amount."""
        taken = []
        while self.waiting and most > 1e-9:
            birth, amount = self.waiting.popleft()
            part = min(amount, most)
            taken.append((birth, part))
            if part < amount:
                self.waiting.appendleft((birth, amount - part))
            most -= part
            self.length = max(0.0, self.length - part)
        return taken


@dataclass(frozen=True)
class Result:
    """The measures of Tables 2 to 8, and what they leave out."""

    saved: float
    degradation: float
    processed: float
    latency: float
    error_input: float
    error_replicas: float
    busy: float
    over_limit: float
    timed_out: float
    cpu_ms: float
    restarts: int


class Planner:
    """Replicas for the next interval. Here they stay as they are."""

    restarts = False

    def __init__(self, first: int) -> None:
        self.first = first
        self.predicted: list[float] = []
        self.cpu_seconds = 0.0

    def plan(self, system: System, history: History) -> dict[str, int]:
        """The replicas of each operator from now on."""
        del history
        return dict(system.active)


class Predictive(Planner):
    """Equations 2 to 7 with a forecast."""

    def __init__(self, forecaster: Forecaster, *, restarts: bool = False) -> None:
        super().__init__(1)
        self.forecaster, self.restarts = forecaster, restarts

    def plan(self, system: System, history: History) -> dict[str, int]:
        """The replicas that the forecast and the queues need."""
        begun = time.process_time()
        rate = max(0.0, self.forecaster(history))
        self.predicted.append(rate)
        plans = plan_replicas(system.measured(), system.sent(), {system.app.source: rate * TD}, TD)
        self.cpu_seconds += time.process_time() - begun
        return {name: each.replicas for name, each in plans.items()}


class Threshold(Planner):
    """Reactive: one more above 80 % of the time busy, one less below 40 %; as much as the measured load needs."""

    def plan(self, system: System, history: History) -> dict[str, int]:
        """The replicas that the last interval would have needed, at 80 % busy."""
        del history
        found = {}
        for each in system.measured():
            busy = each.processed * each.execution_time / TD
            wanted = math.ceil(busy / 0.8 - 1e-9)
            keep = 0.4 <= busy / each.active <= 0.8
            found[each.name] = each.active if keep else min(max(wanted, 1), each.pool)
            if not keep and busy / each.active > 0.8:
                found[each.name] = min(each.active + 1, each.pool) if wanted <= each.active else found[each.name]
        return found


class System:
    """The operators while they run."""

    def __init__(self, app: Application, first: int) -> None:
        self.app = app
        self.active = dict.fromkeys(app.seconds, min(first, app.pool))
        self.queues = {name: Queue() for name in app.seconds}
        self.stopped_until = 0.0
        self.busy_seconds = self.replica_seconds = 0.0
        self._done = dict.fromkeys(app.seconds, 0.0)

    def second(self, now: float, entering: float) -> list[tuple[float, float]]:
        """One second; what leaves, as latency and amount."""
        self.queues[self.app.source].put(now, entering)
        left = []
        for name, seconds in self.app.seconds.items():
            running = now >= self.stopped_until
            done = self.queues[name].take(self.active[name] / seconds if running else 0.0)
            amount = math.fsum(part for _, part in done)
            self._done[name] += amount
            self.busy_seconds += amount * seconds
            self.replica_seconds += self.active[name]
            targets = [(end, gain) for (start, end), gain in self.app.flows.items() if start == name]
            for birth, part in done:
                for end, gain in targets:
                    self.queues[end].put(birth, part * gain)
            if not targets:
                left += [(now - birth + sum(self.app.seconds.values()), part) for birth, part in done]
        return left

    def measured(self) -> list[ReplicaInput]:
        """What the last interval showed."""
        return [
            ReplicaInput(name, each, self._done[name], self.queues[name].length, self.app.pool, self.active[name])
            for name, each in self.app.seconds.items()
        ]

    def sent(self) -> list[ReplicaFlow]:
        """Events between operators in the last interval."""
        return [
            ReplicaFlow(start, end, self._done[start] * gain, gain) for (start, end), gain in self.app.flows.items()
        ]

    def change(self, replicas: Mapping[str, int], now: float, restart_seconds: float) -> bool:
        """Put replicas in force; whether anything changed."""
        changed = dict(replicas) != self.active
        self.active = dict(replicas)
        self._done = dict.fromkeys(self._done, 0.0)
        if changed:
            self.stopped_until = max(self.stopped_until, now + restart_seconds)
        return changed


def run(app: Application, rates: Sequence[float], planner: Planner, before: History, seed: int,
        restart_seconds: float = 30.0) -> Result:  # fmt: skip
    """An hour or so: mean rates of intervals of td seconds; `before` are the rates that were seen before it."""
    rng = np.random.default_rng(seed)
    system, history = System(app, planner.first), list(before)
    latencies: list[tuple[float, float]] = []
    entered = out = timed_out = 0.0
    degradations, errors, short, restarts = [], [], [], 0
    for place, rate in enumerate(rates):
        came = rng.poisson(rate, TD).astype(float)
        if planner.predicted and came.sum():
            errors.append(abs(planner.predicted[-1] * TD - came.sum()) / came.sum())
        needed = app.needed(came.mean())
        short.append(abs(sum(system.active.values()) - needed) / needed)
        left = [each for at in range(TD) for each in system.second(float(place * TD + at), came[at])]
        leaving = math.fsum(part for _, part in left)
        ends = sum(visits for name, visits in app.visits().items() if not any(start == name for start, _ in app.flows))
        degradations.append(abs(came.sum() * ends - leaving) / max(came.sum() * ends, 1e-9))
        entered, out = entered + came.sum() * ends, out + leaving
        timed_out += math.fsum(part for wait, part in left if wait > TIME_OUT)
        latencies += left
        history.append(float(came.mean()))
        now = float((place + 1) * TD)
        wanted = planner.plan(system, history)
        restarts += system.change(wanted, now, restart_seconds if planner.restarts else 0.0)
    values, weights = np.array(latencies).T
    return Result(
        saved=1 - system.replica_seconds / (len(rates) * TD * app.pool * len(app.seconds)),
        degradation=float(np.mean(degradations)),
        processed=out / entered,
        latency=float(np.average(values, weights=weights)),
        error_input=float(np.mean(errors)) if errors else math.nan,
        error_replicas=float(np.mean(short)),
        busy=system.busy_seconds / system.replica_seconds,
        over_limit=math.fsum(each.over_limit for each in system.queues.values()) / entered,
        timed_out=timed_out / entered,
        cpu_ms=1000 * planner.cpu_seconds / len(rates),
        restarts=restarts,
    )

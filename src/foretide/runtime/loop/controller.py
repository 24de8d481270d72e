"""The control loop of one running query: after every batch one cycle of the pure `step`, in a thread of its own.

Nothing in here can hurt the query. A cycle that fails is logged and shown, and the next one is tried; after several
failures in a row the loop begins anew, as it does when a cycle hangs. Meanwhile the query runs on its last routes.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretide.control.decisions.explain import summary
from foretide.control.history.recorded import RecordedWorld
from foretide.control.step import Control, ControlState, step
from foretide.control.world.forecasts import Forecasts
from foretide.control.world.setup import Setup, Target
from foretide.control.world.world import World
from foretide.control_folder.status import ControlStatus, DecisionSummary
from foretide.runtime.loop.orders import Orders

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.control.world.forecasts import Forecast
    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.view import JoinView
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.metrics.snapshot import Snapshot
    from foretide.routing.table import RouteTable
    from foretide.runtime.forecasts.service import ForecastService
    from foretide.runtime.joins.joins import Joins
    from foretide.runtime.loop.actuator import Actuator
    from foretide.runtime.loop.journal import Journal
    from foretide.runtime.loop.observer import Observer

_TURN = 2.0
_FAILURES = 3
_HUNG = 60.0
_KEPT = 20
log = logging.getLogger("foretide")

OnDecision = Callable[["Decision"], None]


@dataclass(frozen=True)
class Senses:
    """What the loop reads with, and acts with. `routes` are those that were published when the last batch ended."""

    setup: Callable[[], Setup | None]
    routes: Callable[[], RouteTable]
    snapshot: Callable[[], Snapshot]
    observer: Observer
    actor: Actuator
    folder: ControlFolder
    journal: Journal
    record: Callable[[RecordedWorld], None] = lambda _: None
    seer: ForecastService | None = None
    joins: Joins | None = None
    limits: tuple[str, ...] = ()


class Controller:
    """Controls one query. Made by `ft.control`; `decisions` are the last ones, `problems` what it cannot do."""

    def __init__(
        self, control: Control, target: Target, senses: Senses, period: float = 0.0, hung_after: float = _HUNG
    ) -> None:
        self.control, self._initial, self._senses = control, target, senses
        self._period, self._hung_after = period, hung_after
        self._reports: queue.SimpleQueue[tuple[BatchReport, RouteTable]] = queue.SimpleQueue()
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._orders = Orders(senses.folder, time.time())
        self._listeners: list[OnDecision] = []
        self._state = self._fresh()
        self._generation = 0
        self._failures = 0
        self._restarts = 0
        self._cycle_began: float | None = None
        self._problem: str | None = None
        self.cycles = 0
        self.last: Decision | None = None
        self._recorded: RecordedWorld | None = None

    def _fresh(self) -> ControlState:
        return replace(self.control.start(), decisions=self._senses.journal.last_id)

    def _record(self, world: World) -> None:
        """Keep what a replay needs, whenever something of it has changed."""
        names = tuple(policy.name for policy in self.control.policies)
        joins = {name: view.of_its_window() for name, view in world.joins.items()}
        now = RecordedWorld(world.at, world.setup, world.target, world.observed, names, joins)
        if self._recorded is None or replace(self._recorded, at=now.at) != now:
            self._recorded = now
            self._senses.record(now)

    # ---- from outside

    def start(self) -> Controller:
        """Begin."""
        self._begin()
        return self

    def stop(self) -> None:
        """End the loop; what is in force stays so."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)
        if self._senses.seer is not None:
            self._senses.seer.close()
        self._say(ended=True)

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in: called after every one. Also looks whether the loop itself still lives."""
        self._reports.put((report, self._senses.routes()))
        self._wake.set()
        self._look_after_itself()

    def on_decision(self, listener: OnDecision) -> None:
        """Call `listener(decision)` after every cycle that had something to say."""
        self._listeners.append(listener)

    @property
    def decisions(self) -> list[Decision]:
        """The last decisions that had something to say, the newest last."""
        return list(self._senses.journal.decisions)

    @property
    def target(self) -> Target:
        """What is held: what was said at the start, and what a person has changed since."""
        return self._orders.target(self._initial)

    @property
    def joins(self) -> Mapping[str, JoinView]:
        """The joins of the query as they are known now, by name."""
        return {} if self._senses.joins is None else self._senses.joins.views()

    def outlook(self, metric: str, subject: str) -> Forecast | None:
        """What is foreseen of a figure, whether it may vote or not."""
        seer = self._senses.seer
        return None if seer is None else seer.foresight(time.time()).outlooks.get((metric, subject))

    @property
    def problems(self) -> list[str]:
        """What the loop cannot do at present, in sentences."""
        seer = self._senses.seer.problems if self._senses.seer is not None else []
        joins = self._senses.joins.problems if self._senses.joins is not None else []
        found = [self._problem, self._senses.journal.problem, self._orders.problem, *self._senses.limits, *seer, *joins]
        return [problem for problem in found if problem]

    # ---- the thread

    def _begin(self) -> None:
        self._generation += 1
        self._cycle_began = None
        name = f"foretide-control-{self._generation}"
        self._thread = threading.Thread(target=self._run, args=(self._generation,), name=name, daemon=True)
        self._thread.start()

    def _look_after_itself(self) -> None:
        """Start the loop anew when a cycle hangs, or its thread has died."""
        began = self._cycle_began
        hangs = began is not None and time.monotonic() - began > self._hung_after
        if self._stopping.is_set() or not (hangs or not self._thread.is_alive()):
            return
        self._problem = f"a control cycle hung for {self._hung_after:g} s; the loop was begun anew" if hangs else None
        log.error("control: %s", self._problem or "its thread died; it is begun anew")
        self._restarts += 1
        self._state = self._fresh()
        self._begin()

    def _run(self, generation: int) -> None:
        while not self._stopping.is_set():
            self._wake.wait(_TURN)
            self._wake.clear()
            if self._stopping.is_set() or generation != self._generation:
                return
            self._guarded_cycle(generation)
            self._stopping.wait(self._period)

    def _guarded_cycle(self, generation: int) -> None:
        self._cycle_began = time.monotonic()
        try:
            self._cycle(generation)
            self._failures, self._problem = 0, None
        except Exception as error:
            log.exception("a control cycle failed; the query runs on its last routes")
            self._problem = f"a control cycle failed: {type(error).__name__}: {error}"
            self._failures += 1
            if self._failures % _FAILURES == 0:
                self._state = self._fresh()
                self._restarts += 1
        finally:
            self._cycle_began = None
        self._say()

    def _cycle(self, generation: int) -> None:
        self._take_in()
        world = self._world()
        if world is None:
            return
        self._record(world)
        state, decision = step(self.control, self._state, world)
        if generation != self._generation:
            return  # it hung, and another thread has taken over
        self._state = state
        self.cycles += 1
        if self.control.mode == "act" and decision.actions:
            problems = self._senses.actor.perform(decision.actions)
            decision = replace(decision, problems=(*decision.problems, *problems))
            self._senses.observer.note_limits(time.time())
        self.last = decision
        self._senses.journal.note(decision)
        if not decision.idle:
            self._tell(decision)

    def _take_in(self) -> None:
        while not self._reports.empty():
            self._senses.observer.see(*self._reports.get())

    def _world(self) -> World | None:
        setup = self._senses.setup()
        if setup is None:
            return None
        snapshot, observed = self._senses.snapshot(), self._senses.observer.observed()
        seer = self._senses.seer
        return World(
            setup,
            snapshot,
            observed,
            Forecasts() if seer is None else seer.foresight(snapshot.at),
            self.target,
            self._orders.actions(observed),
            joins=self.joins,
        )

    def _tell(self, decision: Decision) -> None:
        for listener in self._listeners:
            try:
                listener(decision)
            except Exception:
                log.exception("a listener of the control loop failed; it goes on")

    # ---- for other terminals

    def status(self, *, ended: bool = False) -> ControlStatus:
        """The state of the loop."""
        changed = [decision for decision in self.decisions if decision.chosen][-_KEPT:]
        return ControlStatus(
            at=time.time(),
            mode=self.control.mode,
            policies=tuple(policy.name for policy in self.control.policies),
            target=self.target,
            cycles=self.cycles,
            restarts=self._restarts,
            decisions=tuple(DecisionSummary(each.id, each.at, summary(each)) for each in changed),
            problems=tuple(self.problems),
            forecasts=tuple(self._senses.seer.log) if self._senses.seer is not None else (),
            ended=ended,
        )

    def _say(self, *, ended: bool = False) -> None:
        try:
            self._senses.folder.status.write(self.status(ended=ended))
        except Exception:
            log.exception("the state of the control loop cannot be written; it goes on")

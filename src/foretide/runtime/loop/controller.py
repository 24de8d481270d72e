"""The control loop of one running query: a cycle of the pure `step` after every batch, and in one that is late.

Nothing in here can harm the query. A cycle that fails is logged and shown, and the next one is tried; after several
failures in a row the loop starts from a fresh state, as it does when a cycle hangs. Meanwhile the query runs on with
its last routes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING

from foretide.control.actions.registry import (
    Action,
    Quarantine,
    QuarantineHost,
    Release,
    ReleaseHost,
    Restart,
    SetAdmission,
    SetExecutors,
    SetJoinPlan,
    SetReplicas,
    SetSplit,
)
from foretide.control.decisions.decision import ORDERS
from foretide.control.decisions.effects import merge_effects
from foretide.control.decisions.explain import summary
from foretide.control.forecast_scores import trust_in
from foretide.control.policies.admission import Admission
from foretide.control.step import Control, ControlState, step
from foretide.control.target_record import TargetRecord
from foretide.control_folder.folder import ControlStatus, DecisionSummary, JoinSummary
from foretide.errors import ActionError, ControlFolderError
from foretide.runtime.loop.display import controller_html, progress_text, show_progress
from foretide.runtime.loop.kept_cases import KeptCases
from foretide.runtime.pipeline.listeners import cannot_write
from foretide.runtime.threads import Worker, guarded

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.control.world.setup import Target
    from foretide.control.world.world import Forecast
    from foretide.control_folder.folder import ControlFolder
    from foretide.control_folder.orders import LoopMode
    from foretide.joins.plan import JoinView
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.planning.advice import Advice
    from foretide.routing.table import RouteTable
    from foretide.runtime.live_joins import Joins
    from foretide.runtime.loop.adviser import Adviser
    from foretide.runtime.loop.batch_watch import BatchWatch
    from foretide.runtime.loop.world_reader import Observer, WorldReader, WorldRecorder
    from foretide.runtime.pipeline.followed import Controllable
    from foretide.spark.executors import Executors
    from foretide.store.writer import StoreWriter

_PERIOD_SECONDS = 2.0
_HUNG_AFTER_SECONDS = 60.0
_FAILURES_TO_RESET = 3
_DECISIONS_IN_STATUS = 20
MAX_IN_MEMORY = 1_000
log = logging.getLogger("foretide")

OnDecision = Callable[["Decision"], None]


class Controller:
    """Controls one query. Made by `ft.control`; the constructor starts nothing.

    `state` is carried from one cycle to the next; `last` is the last decision, whether it changed anything or not;
    `record` is how the target was kept so far.
    """

    def __init__(
        self,
        control: Control,
        reader: WorldReader,
        actuator: Actuator,
        journal: Journal,
        recorder: WorldRecorder,
        control_folder: ControlFolder,
        min_period_seconds: float = 0.0,
        hung_after_seconds: float = _HUNG_AFTER_SECONDS,
        watch: BatchWatch | None = None,
    ) -> None:
        self.control, self.reader, self._actuator = control, reader, actuator
        self._journal, self._recorder, self.control_folder = journal, recorder, control_folder
        self._watch = watch
        self._listeners: list[OnDecision] = []
        self._stop_calls: list[Callable[[], object]] = []
        self._ended = Event()
        self._resets = 0
        self._unwritten: str | None = None
        self._untuned: str | None = None
        self._stopped_orders: tuple[str, ...] = ()
        self.adviser: Adviser | None = None
        self.cycles = 0
        self._cases = KeptCases(control_folder)
        self.last: Decision | None = None
        self.record = TargetRecord()
        self.mode: LoopMode = control.mode
        self._mode_calls: list[Callable[[LoopMode], object]] = []
        self._workers: Mapping[str, str] = {}
        self.state = self._fresh_state()
        self._worker = Worker(
            "foretide-control",
            self._cycle,
            _PERIOD_SECONDS,
            what="a control cycle",
            after_turn=self._after_cycle,
            before_replacing=self._reset,
            min_pause_seconds=min_period_seconds,
            hung_after_seconds=hung_after_seconds,
        )

    def start(self) -> Controller:
        """Start the loop, its forecasts and the look at late batches."""
        self.reader.start()
        self._worker.start()
        if self._watch is not None:
            self._watch.start(self._worker.wake)
        return self

    def stop(self) -> None:
        """End the loop; what is in force stays in force."""
        if self._watch is not None:
            self._watch.stop()
        self._worker.stop()
        self.reader.close()
        self._publish_status(ended=True)
        self._ended.set()
        for call in self._stop_calls:
            guarded(call, "a call at the end of the control loop")

    def at_stop(self, call: Callable[[], object]) -> None:
        """Call this once the loop has ended; it may be called more than once."""
        self._stop_calls.append(call)

    def on_mode(self, call: Callable[[LoopMode], object]) -> None:
        """Call `call(mode)` whenever people have changed what the loop does."""
        self._mode_calls.append(call)

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in: a cycle follows. Also replaces the thread if it hangs."""
        self.reader.see(report)
        self._worker.wake()
        self._worker.check()

    def on_decision(self, listener: OnDecision) -> None:
        """Call `listener(decision)` after every cycle with anything to report."""
        self._listeners.append(listener)

    @property
    def decisions(self) -> list[Decision]:
        """The last decisions with anything to report, the newest last."""
        return list(self._journal.decisions)

    @property
    def target(self) -> Target:
        """What is held: the initial target with what people have changed since."""
        return self.reader.target

    @property
    def joins(self) -> Mapping[str, JoinView]:
        """The joins of the query as they are known now, by name."""
        return self.reader.joins

    @property
    def advice(self) -> list[Advice]:
        """What a person could change in the query and its settings, that which saves most first."""
        return [] if self.adviser is None else self.adviser.advice()

    def forecast(self, metric: str, subject: str) -> Forecast | None:
        """The forecast of a metric, whether policies use it or not."""
        return self.reader.forecast(metric, subject)

    def is_trusted(self, metric: str, subject: str, seconds: float) -> bool:
        """Whether policies use the forecast of a metric at one of its horizons."""
        return self.state.forecast_scores.is_trusted((metric, subject), seconds)

    @property
    def problems(self) -> list[str]:
        """What the loop cannot do at present."""
        watch = None if self._watch is None else self._watch.problem
        own = (self._worker.problem, watch, self._journal.problem, self._unwritten, self._untuned)
        return [problem for problem in (*own, *self._stopped_orders, *self.reader.problems) if problem]

    @property
    def _name(self) -> str:
        return "the query" if self.last is None else self.last.query

    def progress(self, seconds: float | None = None) -> None:
        """Wait until the query ends, or for so long, with a line that says how it is; in terminals and notebooks."""
        show_progress(lambda: progress_text(self._name, self.status(), self.control_folder), self._ended, seconds)

    def _repr_html_(self) -> str:
        """The state of the loop, for notebooks."""
        return controller_html(self._name, self.status(ended=self._ended.is_set()), self.control_folder)

    # ---- the thread

    def _cycle(self) -> None:
        world = self.reader.read()
        if world is None:
            return
        self._workers = world.observed.executors
        said = (policy.left_alone(world.setup) for policy in self.control.policies if isinstance(policy, Admission))
        self._untuned = next(said, None)
        self._recorder.note(world, tuple(policy.name for policy in self.control.policies))
        control = self.control.in_mode(self._read_mode())
        state, decision = step(control, self._cases.recall(self.control, self.state, world), world)
        if self._worker.abandoned:
            return  # it hung, and another thread has taken over
        self.state = state
        self._cases.keep(self.control, state, world)
        self.record = self.record.after(world, decision)
        self.reader.set_trusted(world, state.forecast_scores.trusted(world.forecasts))
        self._stopped_orders = tuple(_stopped_orders(decision))
        self.cycles += 1
        if control.mode == "act":
            guarded(self._actuator.remove_idle_executors, "removing executors that are given back")
        if control.mode == "act" and decision.actions:
            problems = self._actuator.perform(decision.actions)
            decision = replace(decision, problems=(*decision.problems, *problems))
            self.reader.observer.note_limits(time.time())
        self.last = decision
        self._journal.note(decision)
        if not decision.idle:
            for listener in self._listeners:
                guarded(partial(listener, decision), "a listener of the control loop")

    def _read_mode(self) -> LoopMode:
        mode = self.reader.mode(self.control.mode)
        if mode != self.mode:
            self.mode = mode
            for call in self._mode_calls:
                guarded(partial(call, mode), "a call after the mode of the control loop has changed")
        return mode

    def _after_cycle(self) -> None:
        if self._worker.failures and self._worker.failures % _FAILURES_TO_RESET == 0:
            self._reset()
        self._publish_status()

    def _reset(self) -> None:
        self._resets += 1
        self.state = self._fresh_state()

    def _fresh_state(self) -> ControlState:
        return replace(self.control.start(), decisions=self._journal.last_id)

    # ---- for other terminals

    def status(self, *, ended: bool = False) -> ControlStatus:
        """The state of the loop."""
        changed = [decision for decision in self.decisions if decision.chosen or decision.by_hand][
            -_DECISIONS_IN_STATUS:
        ]
        return ControlStatus(
            at=time.time(),
            mode=self.control.in_mode(self.mode).mode,
            policies=tuple(policy.name for policy in self.control.policies),
            target=self.target,
            cycles=self.cycles,
            restarts=self._resets,
            decisions=tuple(DecisionSummary(each.id, each.at, summary(each)) for each in changed),
            problems=tuple(self.problems),
            forecasts=tuple(self.reader.forecast_log),
            ended=ended,
            workers=self._workers,
            drained=tuple(sorted(self.reader.drained)),
            record=self.record,
            joins={name: _summary_of(view) for name, view in self.joins.items()},
            advice=tuple(self.advice),
            latency_basis=self.reader.latency_basis,
            paused=self.mode == "pause",
            trust=tuple(trust_in(self.state.forecast_scores)),
        )

    def _publish_status(self, *, ended: bool = False) -> None:
        guarded(partial(self._write_status, ended=ended), "writing the status of the control loop")

    def _write_status(self, *, ended: bool) -> None:
        try:
            self.control_folder.status.write(self.status(ended=ended))
            self._unwritten = None
        except ControlFolderError as error:
            self._unwritten = cannot_write(error)


def _stopped_orders(decision: Decision) -> Iterator[str]:
    """What people have asked for and guards do not allow, in sentences."""
    for each in decision.guards:
        if each.policy == ORDERS and each.after is None:
            yield f"the order to {each.before.describe()} is not carried out: {each.reason}"


def _summary_of(view: JoinView) -> JoinSummary:
    placed = tuple(view.names.get(key, str(key)) for key in view.plan.grids)
    return JoinSummary(view.windows, placed, view.measured_imbalance, view.problem)


class Journal:
    """The last decisions in memory, and those that report something in the store. A failure never reaches the caller.

    Attributes:
        last_id: The highest number so far, of this loop or an earlier one. The next decision has a higher one.
        problem: What went wrong last; None when all is well.
    """

    def __init__(self, writer: StoreWriter | None, first_id: int = 1) -> None:
        """Begin a journal whose decisions count from `first_id`. Without a writer they are kept in memory only."""
        self._writer, self._lock = writer, Lock()
        self._kept: dict[int, Decision] = {}
        self.last_id = first_id - 1
        self.problem: str | None = None

    def note(self, decision: Decision) -> None:
        """Keep a decision, and add the effects that it reports to earlier ones. Never waits, never fails."""
        try:
            with self._lock:
                self.last_id = max(self.last_id, decision.id)
                if not decision.idle:
                    self._kept |= merge_effects(decision, self._kept)
                while len(self._kept) > MAX_IN_MEMORY:
                    del self._kept[next(iter(self._kept))]
            if self._writer is not None and not decision.idle:
                self._writer.put_decisions([decision])
            self.problem = None
        except Exception as error:
            self.problem = f"a decision was not noted: {type(error).__name__}: {error}"
            log.exception("a decision was not noted")

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last decisions that reported something, the oldest first."""
        with self._lock:
            return tuple(self._kept.values())


class Actuator:
    """Turns actions into published routes and limits, restarts, and calls to Spark's driver.

    The observer is told which routes were published, so that it recognises them when a batch has read them.
    """

    def __init__(
        self,
        query: Controllable,
        executors: Executors,
        observer: Observer,
        joins: Joins | None,
        watch: BatchWatch | None = None,
    ) -> None:
        self._query, self._executors, self._observer, self._joins = query, executors, observer, joins
        self._watch = watch
        self._control_folder = query.follower.control_folder

    def perform(self, actions: tuple[Action, ...]) -> list[str]:
        """Carry out all of them. Failures are returned as sentences, and keep no other action from being done."""
        problems = []
        for action in actions:
            try:
                self._perform(action)
            except Exception as error:  # noqa: BLE001 - whatever Spark says, the query and the loop go on
                problems.append(f"could not {action.describe()}: {error}")
                log.error("%s", problems[-1])  # noqa: TRY400 - the sentence says it
        return problems

    def remove_idle_executors(self) -> None:
        """Remove those executors that are given back and that the last batch did without."""
        self._executors.remove_idle(self._observer.busy, self._observer.until)

    def _perform(self, action: Action) -> None:
        if isinstance(action, SetSplit | SetReplicas | SetAdmission):
            self._check_held(action.target)
        match action:
            case SetSplit(edge, weights):
                self._publish(lambda table: table.split(edge, weights))
            case SetReplicas(edge, replicas):
                self._publish(lambda table: table.activate(edge, replicas))
            case SetAdmission(spout, rows):
                self._control_folder.orders.limit_admission(spout, rows)
            case Restart():
                self._restart(action)
            case SetExecutors(count):
                self._executors.resize(count)
            case SetJoinPlan():
                if self._joins is None:
                    raise ActionError("this query has no joins that can be planned")
                self._joins.adopt(action.join, action.plan)
            case _:
                self._place(action)

    def _check_held(self, target: str) -> None:
        """Refuse to change what a person has set since the loop has decided."""
        with suppress(ControlFolderError):
            order = self._control_folder.orders.held().get(target)
            if order is not None and order.holds(time.time()):
                raise ActionError(f"held by a person: {order.describe()}")

    def _restart(self, restart: Restart) -> None:
        """Restart the query. An order is marked first: it is never carried out twice, whatever happens meanwhile."""
        if restart.order is not None:
            self._control_folder.orders.note_restarted(restart.order)
            self._observer.note_restart(restart.order)
        self._query.restart(restart)

    def _publish(self, change: Callable[[RouteTable], RouteTable]) -> None:
        self._observer.note_routes(self._control_folder.change_routes(change))

    def _place(self, action: Quarantine | Release | QuarantineHost | ReleaseHost) -> None:
        if isinstance(action, (Quarantine, Release)):
            workers = [action.worker]
        else:
            workers = [worker for worker, host in self._executors.executors().items() if host == action.host]
        for worker in workers:
            if isinstance(action, (Quarantine, QuarantineHost)):
                self._executors.take_out(worker)
                if self._watch is not None:
                    self._watch.copy_tasks(worker)
            else:
                self._executors.let_in(worker)

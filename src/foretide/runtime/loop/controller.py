"""The control loop of one running query: one cycle of the pure `step` after every batch, in a thread of its own.

Nothing in here can harm the query. A cycle that fails is logged and shown, and the next one is tried; after several
failures in a row the loop starts from a fresh state, as it does when a cycle hangs. Meanwhile the query runs on with
its last routes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from foretide.control.decisions.explain import summary
from foretide.control.step import Control, ControlState, step
from foretide.control_folder.status import ControlStatus, DecisionSummary
from foretide.runtime.threads import Worker, guarded

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.control.world.setup import Target
    from foretide.control.world.world import Forecast
    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.view import JoinView
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.loop.actuator import Actuator
    from foretide.runtime.loop.journal import Journal
    from foretide.runtime.loop.world_reader import WorldReader, WorldRecorder

_PERIOD_SECONDS = 2.0
_HUNG_AFTER_SECONDS = 60.0
_FAILURES_TO_RESET = 3
_DECISIONS_IN_STATUS = 20

OnDecision = Callable[["Decision"], None]


class Controller:
    """Controls one query. Made by `ft.control`; the constructor starts nothing.

    Attributes:
        control: Policies, guards and mode.
        cycles: How many cycles were completed.
        last: The last decision, whether it changed anything or not.
        state: What is carried from one cycle to the next.
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
    ) -> None:
        self.control, self.reader, self._actuator = control, reader, actuator
        self._journal, self._recorder, self.control_folder = journal, recorder, control_folder
        self._listeners: list[OnDecision] = []
        self._resets = 0
        self.cycles = 0
        self.last: Decision | None = None
        self.state = _fresh_state(control, journal)
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
        """Start the loop and its forecasts."""
        self.reader.start()
        self._worker.start()
        return self

    def stop(self) -> None:
        """End the loop; what is in force stays in force."""
        self._worker.stop()
        self.reader.close()
        _publish_status(self, ended=True)

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

    def forecast(self, metric: str, subject: str) -> Forecast | None:
        """The forecast of a metric, whether policies use it or not."""
        return self.reader.forecast(metric, subject)

    @property
    def problems(self) -> list[str]:
        """What the loop cannot do at present."""
        found = [self._worker.problem, self._journal.problem, *self.reader.problems]
        return [problem for problem in found if problem]

    # ---- the thread

    def _cycle(self) -> None:
        world = self.reader.read()
        if world is None:
            return
        self._recorder.note(world, tuple(policy.name for policy in self.control.policies))
        state, decision = step(self.control, self.state, world)
        if self._worker.abandoned:
            return  # it hung, and another thread has taken over
        self.state = state
        self.cycles += 1
        if self.control.mode == "act" and decision.actions:
            problems = self._actuator.perform(decision.actions)
            decision = replace(decision, problems=(*decision.problems, *problems))
            self.reader.observer.note_limits(time.time())
        self.last = decision
        self._journal.note(decision)
        if not decision.idle:
            for listener in self._listeners:
                guarded(partial(listener, decision), "a listener of the control loop")

    def _after_cycle(self) -> None:
        if self._worker.failures and self._worker.failures % _FAILURES_TO_RESET == 0:
            self._reset()
        _publish_status(self)

    def _reset(self) -> None:
        self._resets += 1
        self.state = _fresh_state(self.control, self._journal)

    # ---- for other terminals

    def status(self, *, ended: bool = False) -> ControlStatus:
        """The state of the loop."""
        changed = [decision for decision in self.decisions if decision.chosen][-_DECISIONS_IN_STATUS:]
        return ControlStatus(
            at=time.time(),
            mode=self.control.mode,
            policies=tuple(policy.name for policy in self.control.policies),
            target=self.target,
            cycles=self.cycles,
            restarts=self._resets,
            decisions=tuple(DecisionSummary(each.id, each.at, summary(each)) for each in changed),
            problems=tuple(self.problems),
            forecasts=tuple(self.reader.forecast_log),
            ended=ended,
        )


def _fresh_state(control: Control, journal: Journal) -> ControlState:
    return replace(control.start(), decisions=journal.last_id)


def _publish_status(controller: Controller, *, ended: bool = False) -> None:
    def write() -> None:
        controller.control_folder.status.write(controller.status(ended=ended))

    guarded(write, "writing the status of the control loop")

"""Runs a campaign: starts the pipeline under supervision, feeds and disturbs it, and has its output compared.

Everything happens in processes of their own; this one only watches files, sends signals and gives orders.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from foretide.codec import from_json
from foretide.errors import ForetideError, PipelineFailedError
from foretide.runtime.driver_supervisor import DriverSupervisor, RestartLimits
from foretide.runtime.threads import Worker
from foretide.soak.checks import NotesRead, StatusWatch, find_problems
from foretide.soak.layout import NAME, Layout, Setup
from foretide.soak.outcome import Comparison, Outcome
from foretide.soak.processes import driver_of, kill_session
from foretide.soak.rows import Feed
from foretide.soak.schedule import FAULTS, Kind, Lane, Schedule, Step
from foretide.soak.steps import NotNowError, Scene, perform

_LIMITS = RestartLimits(max_restarts=10**9, healthy_seconds=0.0, first_wait_seconds=0.2)
_POLL_SECONDS = 0.05
_TURN_SECONDS = 0.2
_MAX_UNREAD_FILES = 3
_MIN_FILES = 6
_MAX_STALL_SECONDS = 900.0
_COMPARISON_SECONDS = 3600.0

Progress = Callable[[float], None]


def run_campaign(schedule: Schedule, seconds: float, setup: Setup, folder: Path, progress: Progress) -> Outcome:
    """Run a schedule for at most so long, let the pipeline finish, and compare.

    Args:
        schedule: What is done; it ends the campaign if it is shorter.
        seconds: When disturbing it ends.
        setup: The pipeline.
        folder: An empty folder for all that the campaign writes.
        progress: Called with the share of `seconds` that has passed.
    """
    began = time.monotonic()
    layout = Layout(folder)
    setup.write(layout)
    run = _Run(schedule, seconds, layout, Feed(layout.input, setup.seed, setup.rows), progress)
    code = run.supervise()
    problems = [*run.problems, *([] if code == 0 else [f"the pipeline did not end by itself (exit code {code})"])]
    notes = NotesRead.of(layout)
    problems += find_problems(layout, notes, run.scene.store_deleted, run.watch)
    comparison = None if code else compare(layout)
    return Outcome(
        schedule.seed,
        time.monotonic() - began,
        dict(run.done),
        dict(run.refused),
        notes.lives,
        layout.committed_batch() + 1,
        comparison,
        tuple(problems),
        run.watch.lag,
        {
            "input_rows": run.feed.rows_put,
            "route_versions_read": len(notes.routes),
            "join_plans_read": len(notes.plans),
        },
    )


def compare(layout: Layout) -> Comparison:
    """Have another process compare the output with plain Spark."""
    command = [sys.executable, "-m", "foretide.soak.comparison", str(layout.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPARISON_SECONDS, check=False)
    if done.returncode:
        raise PipelineFailedError("comparison", None, done.stderr.strip()[-1000:] or f"exit code {done.returncode}")
    return from_json(Comparison, layout.comparison.read_text())


class _Run:
    """The threads of a campaign beside the supervisor, which has the main thread."""

    def __init__(self, schedule: Schedule, seconds: float, layout: Layout, feed: Feed, progress: Progress) -> None:
        self.schedule, self.seconds, self.layout, self.feed, self.progress = schedule, seconds, layout, feed, progress
        self.scene, self.watch = Scene(layout), StatusWatch(layout)
        self.done: Counter[Kind] = Counter()
        self.refused: Counter[Kind] = Counter()
        self.problems: list[str] = []
        self._over, self._began = threading.Event(), time.monotonic()
        self._changed, self._last_seen = self._began, (-1, -1)
        self._lanes = [threading.Thread(target=self._take, args=(lane,), daemon=True) for lane in get_args(Lane)]

    def supervise(self) -> int:
        """Run the pipeline to its end; its exit code."""
        layout = self.layout
        python, folder, log = (shlex.quote(str(each)) for each in (sys.executable, layout.folder, layout.log))
        command = f"exec {python} -m foretide.soak.application {folder} >>{log} 2>&1"
        supervisor = DriverSupervisor(NAME, ["sh", "-c", command], layout.control_folder, _LIMITS, lambda _: None)
        watch = Worker("foretide-soak", self._turn, _TURN_SECONDS, what="watching the campaign")
        watch.start()
        for lane in self._lanes:
            lane.start()
        try:
            return supervisor.run()
        finally:
            self._over.set()
            for lane in self._lanes:
                lane.join()
            watch.stop()

    def _take(self, lane: Lane) -> None:
        """Take the steps of a lane one after the other."""
        for step in self.schedule.lane(lane):
            if self._over.wait(step.after) or not self._await_moment(step) or self._over.wait(step.delay):
                return
            self._carry_out(step)

    def _await_moment(self, step: Step) -> bool:
        """Wait for the moment of a step; False if the campaign is over before."""
        match step.moment:
            case "batch":
                before = self.layout.begun_batch()
                return self._wait_for(lambda: self.layout.begun_batch() > before)
            case "commit":
                before = self.layout.committed_batch()
                return self._wait_for(lambda: self.layout.committed_batch() > before)
        return True

    def _carry_out(self, step: Step) -> None:
        """Carry a step out as soon as there is something that it applies to."""
        while not self._over.is_set():
            try:
                perform(self.scene, step)
            except NotNowError:
                self._over.wait(_TURN_SECONDS)
            except ForetideError:
                self.refused[step.kind] += 1
                return
            except Exception as error:  # noqa: BLE001 - the campaign goes on, and says so at its end
                self.problems.append(f"{step.kind} failed: {type(error).__name__}: {error}")
                return
            else:
                self.done[step.kind] += 1
                if step.kind in FAULTS:
                    self.watch.note_fault()
                return

    def _wait_for(self, condition: Callable[[], bool]) -> bool:
        while not condition():
            if self._over.wait(_POLL_SECONDS):
                return False
        return True

    # ---- what is watched meanwhile

    def _turn(self) -> None:
        passed = time.monotonic() - self._began
        self.progress(min(1.0, passed / self.seconds) if self.seconds else 1.0)
        self.watch.turn()
        self._abort_if_stalled()
        disturbed = any(lane.is_alive() for lane in self._lanes)
        if self.feed.files >= _MIN_FILES and (passed > self.seconds or not disturbed):
            self._over.set()
        if not self._over.is_set():
            if self.feed.files - self.layout.files_taken() < _MAX_UNREAD_FILES:
                self.feed.put(self.scene.take_malformed())
        elif not disturbed and not self.layout.end_of_input.exists():
            self.layout.end_of_input.write_text(str(self.feed.end()))

    def _abort_if_stalled(self) -> None:
        """Give up a pipeline of which nothing has been seen for minutes."""
        seen = (self.layout.begun_batch(), self.layout.committed_batch())
        if seen != self._last_seen:
            self._last_seen, self._changed = seen, time.monotonic()
        if time.monotonic() - self._changed > _MAX_STALL_SECONDS and not self.layout.aborted.exists():
            self.problems.append(f"no batch began or ended for {_MAX_STALL_SECONDS:.0f} s; the campaign was given up")
            self.layout.aborted.touch()
            self._over.set()
            if (driver := driver_of(self.layout)) is not None:
                kill_session(driver)

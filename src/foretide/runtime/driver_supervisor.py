"""Supervises a driver in a process of its own: a driver that dies is started again and continues its checkpoint.

The driver leads a session of its own, so that what it leaves behind when it is killed (the JVM, Python workers) is
found and ended before the next one starts: two drivers must never write to one checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from foretide.control_folder.supervision import SupervisorStatus, write_supervisor
from foretide.errors import PipelineFailedError
from foretide.runtime.shutdown import Interrupted, in_session, kill_all
from foretide.runtime.threads import guarded

CRASHED = 70
"""The exit code of a supervised driver that failed and may be started again."""

_FINAL = frozenset({0, 1, 2, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM})
"""Exit codes after which a driver stays ended: done, refused, wrong usage, or stopped by somebody."""

_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class RestartLimits:
    """How often a driver is started again, and when.

    Attributes:
        max_restarts: Maximum restarts in a row; one that ran for `healthy_seconds` starts a new row.
        first_wait_seconds: Wait before the first restart of a row; it doubles each time, up to `max_wait_seconds`.
    """

    max_restarts: int = 10
    healthy_seconds: float = 300.0
    first_wait_seconds: float = 1.0
    max_wait_seconds: float = 60.0


def next_restart(limits: RestartLimits, restarts_in_a_row: int, ran_seconds: float) -> tuple[int, float] | None:
    """The number of restarts in a row with the next one, and the wait before it; None to give up.

    >>> next_restart(RestartLimits(), 2, 10.0), next_restart(RestartLimits(), 10, 10.0)
    ((3, 4.0), None)
    >>> next_restart(RestartLimits(), 10, 3600.0)
    (1, 1.0)
    """
    before = 0 if ran_seconds >= limits.healthy_seconds else restarts_in_a_row
    if before >= limits.max_restarts:
        return None
    return before + 1, min(limits.first_wait_seconds * 2.0**before, limits.max_wait_seconds)


def describe_exit(code: int) -> str:
    """How a process has ended.

    >>> describe_exit(-9), describe_exit(70)
    ('was killed by SIGKILL', 'failed with exit code 70')
    """
    if code >= 0:
        return f"failed with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class DriverSupervisor:
    """Runs a driver until it has ended for good. The constructor starts nothing."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        control_folder: Path,
        limits: RestartLimits,
        say: Callable[[str], None],
    ) -> None:
        """Prepare a supervisor.

        Args:
            name: The pipeline.
            command: Starts the driver, which continues its checkpoint if there is one.
            control_folder: Where restarts are shown to `foretide status`.
            limits: How often it is started again.
            say: Called with a sentence about each restart.
        """
        self._name, self._command, self._folder = name, command, control_folder
        self._limits, self._say = limits, say
        self._status = SupervisorStatus(os.getpid(), max_restarts=limits.max_restarts)
        self._written: SupervisorStatus | None = None
        self._driver: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run the driver, again whenever it dies; returns its last exit code. An interrupt stops it first.

        Raises:
            PipelineFailedError: It has died too often.
        """
        in_a_row = 0
        try:
            while True:
                began = time.monotonic()
                code = self._run_once()
                if code in _FINAL:
                    return code
                planned = next_restart(self._limits, in_a_row, time.monotonic() - began)
                end = describe_exit(code)
                if planned is None:
                    restarts = f"{in_a_row} restart{'' if in_a_row == 1 else 's'} in a row"
                    raise PipelineFailedError(self._name, None, f"its driver {end}, after {restarts}")
                in_a_row, wait = planned
                self._say(f"the driver {end}; it is started again from its checkpoint in {wait:g} s")
                self._publish(restarts=self._status.restarts + 1, last_exit=end, at=time.time())
                time.sleep(wait)
        except KeyboardInterrupt as interrupt:
            self._stop(interrupt)
            raise
        finally:
            self._publish(ended=True)

    def _run_once(self) -> int:
        self._driver = subprocess.Popen(self._command, start_new_session=True)
        while (code := self._driver.poll()) is None:
            time.sleep(_POLL_SECONDS)
            self._publish()
        kill_all(in_session(self._driver.pid))
        return code

    def _stop(self, interrupt: KeyboardInterrupt) -> None:
        """Pass the signal on to the driver, which stops its pipeline, and kill what does not end."""
        driver = self._driver
        if driver is None or driver.poll() is not None:
            return
        driver.send_signal(Interrupted.of(interrupt).signal)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(_STOP_SECONDS)
        kill_all(in_session(driver.pid))
        driver.wait()
        interrupt.add_note("the driver was stopped")

    def _publish(self, **changed: Any) -> None:
        """Show changes to `foretide status`, once the driver has created the control folder."""
        self._status = replace(self._status, **changed)
        if self._status != self._written and self._folder.is_dir():
            self._written = self._status
            guarded(partial(write_supervisor, self._folder, self._status), "writing the status of the supervisor")

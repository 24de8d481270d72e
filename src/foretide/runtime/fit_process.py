"""Processes beside the pipeline that stand back behind it: one core, least priority, ended when they take too long."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

Command = Callable[[Path, int], Sequence[str]]
"""From the folder of a lesson and a niceness, the command that works on it."""


def environment() -> dict[str, str]:
    """This process's, with what is importable here, and one thread for whatever would take all cores."""
    found = {**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_XLA}".strip()
    return found


def fitting(folder: Path, niceness: int) -> Sequence[str]:
    """The command that fits a load."""
    return [sys.executable, "-m", "foretide.runtime.forecasts.load_fit", str(folder), str(niceness)]


class FitProcess:
    """A fit that is under way in a process, with a folder of its own for what goes in and comes out."""

    def __init__(self, prepare: Callable[[Path], None], command: Command, niceness: int, deadline: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="foretide-seer-"))
        self.deadline = deadline
        try:
            prepare(self.folder)
            with (self.folder / "errors").open("wb") as errors:
                self._process = subprocess.Popen(
                    command(self.folder, niceness), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=errors, env=environment(),
                )  # fmt: skip
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def running(self, now: float) -> bool:
        """Whether it is still at work and in time."""
        return self._process.poll() is None and now < self.deadline

    def problem(self) -> str | None:
        """Why there is no result; None if there is one. It must not be running any more."""
        code = self._process.poll()
        if code is None:
            return "it took too long and was ended"
        if code == 0:
            return None
        said = (self.folder / "errors").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"it ended with code {code}" + (f": {said[-1]}" if said else "")

    def close(self) -> None:
        """End it, and take its folder away."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

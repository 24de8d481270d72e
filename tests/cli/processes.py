"""Commands as processes with Spark, for tests."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest

from foretide.control_folder.folder import ControlFolder
from foretide.runtime.shutdown import descendants, kill_all
from foretide.status.pipelines import list_running
from helpers import environment, wait_for


@contextmanager
def running(*arguments, **variables):
    """A command; nothing of it is left afterwards, whatever becomes of the test."""
    command = [sys.executable, "-m", "foretide", *map(str, arguments)]
    pipe = subprocess.PIPE
    env = {**environment(), **variables}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env) as process:
        try:
            yield process
        finally:
            kill_all(descendants(process.pid))
            process.kill()


def pipeline_of(process, name=None):
    """The pipeline that a command runs, after its first batches; with a name, the one that is called so."""

    def found():
        if process.poll() is not None:
            pytest.fail(process.communicate()[1])
        states = {each: ControlFolder(each.control_folder).status.pipeline() for each in list_running()}
        named = {each: status for each, status in states.items() if name in {None, each.name}}
        return [each for each, status in named.items() if status is not None and status.batch >= 1]

    return wait_for(found)[0]

"""Spark's Python daemon, without a traceback for each idle worker that Spark ends.

Spark closes the socket of a Python worker that was idle for a minute. The worker then fails to flush its output, and
`pyspark.daemon` prints the BrokenPipeError into the terminal: by raising it, or by printing it itself where
`spark.python.daemon.killWorkerOnFlushFailure` is off. Nobody is left to read that output, so the worker just ends.

`foretide.session` names this module in `spark.python.daemon.module` for local masters, whose terminal it is.
"""

from __future__ import annotations

from typing import Any

from pyspark import daemon

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:  # noqa: FBT001 - Spark calls it
    """One task on a worker; a code other than 0 ends the worker."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()

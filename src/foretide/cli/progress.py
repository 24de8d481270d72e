"""Says what a command is doing while nothing can be shown of it: how long it has taken so far."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from foretide.runtime.threads import Worker

_LOOK_SECONDS = 1.0
_FIRST_SECONDS, _EVERY_SECONDS = 2.0, 10.0
_ERASE_LINE = "\r\x1b[K"


@contextlib.contextmanager
def progress(doing: str, wanted: Callable[[], bool] | None = None) -> Iterator[None]:
    """Say on stderr what is being done, and for how long: on a terminal in one line, elsewhere every ten seconds.

    With `wanted`, only while that is so, and not on a terminal, where other lines come meanwhile.
    """
    began, due = time.monotonic(), _FIRST_SECONDS
    with _own_stderr() as stream:
        rewritten = stream.isatty()

        def say() -> None:
            nonlocal due
            passed = time.monotonic() - began
            if not rewritten and passed < due:
                return
            due = _EVERY_SECONDS * (passed // _EVERY_SECONDS + 1)
            if wanted is None or wanted():
                text = f"{doing} ... {passed:.0f} s"
                stream.write(f"\r{text}" if rewritten else f"{text}\n")
                stream.flush()

        worker = Worker("foretide-progress", say, _LOOK_SECONDS, what="showing progress")
        if wanted is None or not rewritten:
            worker.start()
        try:
            yield
        finally:
            worker.stop()
            if wanted is None and rewritten:
                stream.write(_ERASE_LINE)
                stream.flush()


@contextlib.contextmanager
def _own_stderr() -> Iterator[Any]:
    """The standard error of this process, also while that of new processes is redirected."""
    try:
        own = os.dup(sys.stderr.fileno())
    except (OSError, io.UnsupportedOperation):  # not a file, as in tests
        yield sys.stderr
        return
    with os.fdopen(own, "w", encoding="utf-8") as stream:
        yield stream

"""Where Spark's own words go while Foretide shows a run: into a file, so that nothing breaks what a person sees."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def spark_log(file: Path) -> Iterator[None]:
    """What is started in here, such as Spark's driver and all its children, writes its errors to the file for good."""
    file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)

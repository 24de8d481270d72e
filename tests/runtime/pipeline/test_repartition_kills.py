"""A state repartition whose driver is killed (SIGKILL) can always be left again, and loses and doubles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
APP = Path(__file__).with_name("repartition_app.py")
AT_FIRST = 3
"""Files, and batches: the repartition comes at a batch that compacts the sink's log (every fourth)."""


def put(folder, numbers):
    """Files of 30 lines with 25 ids, of which five are also in the next file."""
    (folder / "in").mkdir(exist_ok=True)
    for number in numbers:
        file = folder / "in" / f"{number:04}.json"
        lines = [{"id": number * 20 + place % 25, "t": "2024-01-01T00:00:00"} for place in range(30)]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def run(folder, mode):
    with (folder / "log").open("a") as log:
        command = [sys.executable, str(APP), str(folder), mode]
        done = subprocess.run(
            command, env=environment(), start_new_session=True, stdout=log, stderr=log, check=False, timeout=600
        )
    return done.returncode, (folder / "log").read_text()[-3000:]


def entries(folder, log):
    names = [path.name.removesuffix(".compact") for path in (folder / log).iterdir()]
    return sorted(int(name) for name in names if name.isdigit())


@pytest.mark.parametrize("kills", [["between"], pytest.param(["inside", "between"], marks=pytest.mark.soak)])
def test_a_repartition_that_is_killed_is_put_in_order_at_the_next_start(tmp_path, kills):
    put(tmp_path, range(AT_FIRST))
    for kill in kills:
        code, said = run(tmp_path, kill)
        assert code == -9, said
        planned, committed = entries(tmp_path, "checkpoint/offsets"), entries(tmp_path, "checkpoint/commits")
        assert planned[-1] == AT_FIRST
        assert committed[-1] == (AT_FIRST if kill == "between" else AT_FIRST - 1)
        assert entries(tmp_path, "out/_spark_metadata")[-1] == AT_FIRST - 1
    put(tmp_path, range(AT_FIRST, 2 * AT_FIRST))
    code, said = run(tmp_path, "end")
    assert code == 0, said
    assert json.loads((tmp_path / "rows.json").read_text()) == list(range(20 * 2 * AT_FIRST + 5))

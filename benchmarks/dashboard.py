"""What 20 live clients of a dashboard cost the pipeline: CPU time of its driver and JVM for each million rows.

The dashboard and its clients are processes of their own, and only the pipeline's is counted. Half of the clients are
open pages in a browser, which their web sockets keep current; each of the others reads a stream of events, and the
topology once a second. Windows with and without clients take turns in one run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import WebSocket, sync_playwright

import foretide as ft
from benchmarks.control_cost import cpu_seconds
from benchmarks.monitoring import topology

CLIENTS = 20
OPEN_PAGES = 10
SHOWN = ("topology", "latency", "decisions", "workers", "forecast")
CHROMIUM = os.environ.get("FORETIDE_CHROMIUM", "/usr/bin/chromium")
WARM_UP = 5
_NOT_THE_PIPELINE = "other processes"


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - figures without pictures
    """CPU time for each million rows, with clients and without."""
    windows, batches, rows = (2, 3, 300_000) if quick else (10, 6, 500_000)
    spark = ft.session("local[2]", "foretide-bench", {"spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            os.environ["FORETIDE_HOME"] = place
            return measure(spark, windows, batches, rows, place)
    finally:
        spark.stop()


def measure(spark: Any, windows: int, batches: int, rows: int, place: str) -> dict[str, Any]:
    """Windows of some batches take turns; each pair is compared."""
    settings = ft.RunSettings(trigger="0 seconds")
    pipeline = ft.submit(spark, topology(rows), ft.Parquet(f"{place}/out"), f"{place}/checkpoint", settings)
    ft.control(pipeline, target=ft.Latency(p99="60s"), settings=ft.Settings())
    used: dict[bool, list[float]] = {True: [], False: []}
    answers: list[int] = []
    try:
        with _dashboard() as address:
            _until(pipeline, WARM_UP)
            for number in range(windows):
                for watched in (True, False) if number % 2 else (False, True):
                    with _clients(address if watched else None, answers):
                        used[watched].append(_window(pipeline, batches, rows))
    finally:
        pipeline.stop()
    more = [100 * (a / b - 1) for a, b in zip(used[True], used[False], strict=True)]
    low, _, high = statistics.quantiles(more, n=4) if len(more) > 1 else (more[0],) * 3
    return {
        f"CPU time of the pipeline, {CLIENTS} live clients": [
            {
                "CPU s per million rows without": statistics.median(used[False]),
                "with": statistics.median(used[True]),
                "more, median of pairs %": statistics.median(more),
                "quartiles %": f"{low:.1f} to {high:.1f}",
                "pairs": windows,
                "answers read": sum(answers),
            }
        ]
    }


def _window(pipeline: Any, batches: int, rows: int) -> float:
    _until(pipeline, len(pipeline.reports) + 1)
    first, before = len(pipeline.reports), _cpu()
    _until(pipeline, first + batches)
    return (_cpu() - before) / ((len(pipeline.reports) - first) * rows) * 1e6


def _until(pipeline: Any, reports: int) -> None:
    while len(pipeline.reports) < reports:
        pipeline.raise_failure()
        time.sleep(0.02)


def _cpu() -> float:
    return sum(seconds for name, seconds in cpu_seconds().items() if name != _NOT_THE_PIPELINE)


@contextmanager
def _dashboard() -> Iterator[str]:
    command = [sys.executable, "-m", "foretide", "dashboard", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
        process.terminate()


@contextmanager
def _clients(address: str | None, answers: list[int]) -> Iterator[None]:
    """Clients in a process of their own; `answers` gets how many they have read."""
    if address is None:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.dashboard", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        answers.append(int(process.communicate("\n")[0]))


def be_clients(address: str) -> None:
    """Read as open pages and other clients do, until a line comes in; then say how many answers there were."""
    with urllib.request.urlopen(f"{address}/api/v1/pipelines") as answer:
        (found,) = json.load(answer)
    ended, counts = threading.Event(), [0] * CLIENTS
    threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
    base = f"{address}/api/v1/pipelines/{found['id']}"
    for number in range(OPEN_PAGES, CLIENTS):
        threading.Thread(target=_read_streams, args=(base, ended, counts, number), daemon=True).start()
    _open_pages(f"{address}/p/{found['id']}", ended, counts)
    print(sum(counts), flush=True)


def _read_streams(base: str, ended: threading.Event, counts: list[int], number: int) -> None:
    with urllib.request.urlopen(f"{base}/events") as events:
        while not ended.wait(1.0):
            events.readline()
            with urllib.request.urlopen(f"{base}/topology") as answer:
                counts[number] += bool(json.load(answer)["operators"])


def _open_pages(base: str, ended: threading.Event, counts: list[int]) -> None:
    """Pages in a browser; what comes over their web sockets is counted."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        pages = [browser.new_page() for _ in range(OPEN_PAGES)]
        for number, page in enumerate(pages):
            page.on("websocket", partial(_count, counts, number))
            page.goto(f"{base}/{SHOWN[number % len(SHOWN)]}")
        print("ready", flush=True)
        while not ended.is_set():
            pages[0].wait_for_timeout(200)
        browser.close()


def _count(counts: list[int], number: int, socket: WebSocket) -> None:
    def received(_: str | bytes) -> None:
        counts[number] += 1

    socket.on("framereceived", received)


if __name__ == "__main__":
    be_clients(sys.argv[1])

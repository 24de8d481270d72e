"""Made-up batches and worlds of any size: what a query of so many tasks on so many executors would show."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from foretide.control.world.setup import Observed, OperatorSetup, Setup
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, Record, World
from foretide.metrics.batch import BatchReport, EdgeFlow, TaskRun
from foretide.metrics.from_batch import SLOWNESS, BatchContext, SpoutFigures, slowness_samples, stream_samples
from foretide.metrics.metric import Sample
from foretide.runtime.monitoring.monitor import LatestValues

BEGIN = 1_750_000_000.0
CORES = 4
WORKERS_A_HOST = 4
SLOW_EVERY, SLOW_FACTOR = 10, 4.0
ROWS_A_TASK, SERVICE_MS, WARM_UP = 1_000, 0.5, 3
QUERY, SPOUT, BOLTS = "made-up", "read", ("parse", "count")


@dataclass
class MadeUp:
    """A query whose tasks are those of one spout and two bolts; every tenth executor can be slow.

    `stays`: tasks stay with their workers, as in real time.
    """

    tasks: int
    executors: int
    slow: bool = False
    stays: bool = False
    latest: LatestValues = field(default_factory=lambda: LatestValues(QUERY))

    @property
    def pool(self) -> int:
        """Tasks of each operator."""
        return max(1, self.tasks // (1 + len(BOLTS)))

    @property
    def workers(self) -> dict[str, str]:
        """The host of each executor."""
        return {str(number): f"host{number // WORKERS_A_HOST}" for number in range(self.executors)}

    def report(self, batch: int) -> BatchReport:
        """A batch that ends a second after the one before."""
        edges = {name: self._flow() for name in BOLTS}
        return BatchReport(
            batch, BEGIN + batch, 0.9, self.pool * ROWS_A_TASK, 1, edges, tasks=self._tasks(), phases={"addBatch": 800}
        )

    def _flow(self) -> EdgeFlow:
        rows = self.pool * ROWS_A_TASK
        return EdgeFlow(rows, rows, per_task=(ROWS_A_TASK,) * self.pool, busy_ms=(500,) * self.pool)

    def _tasks(self) -> tuple[TaskRun, ...]:
        feeds = (*BOLTS, None)
        return tuple(
            self._task(operator, task, feeds[place])
            for place, operator in enumerate((SPOUT, *BOLTS))
            for task in range(self.pool)
        )

    def _task(self, operator: str, task: int, feeds: str | None) -> TaskRun:
        worker = task % self.executors
        factor = SLOW_FACTOR if self.slow and worker % SLOW_EVERY == 0 else 1.0
        run_ms = ROWS_A_TASK * SERVICE_MS * factor
        edge = None if operator == SPOUT else operator
        host = f"host{worker // WORKERS_A_HOST}"
        figures: tuple[Any, ...] = (1.0, run_ms, run_ms, 1.0, 0.0, 0.0, 0.0, ROWS_A_TASK, ROWS_A_TASK, 100, 100, 0)
        return TaskRun(operator, task, edge, feeds, False, str(worker), host, *figures)  # noqa: FBT003 - as the record

    def samples(self, report: BatchReport) -> list[Sample]:
        """What monitoring makes of a batch."""
        rate = float(report.input_rows)
        latency = {f"latency_{name}_ms": 2.0 for name in ("mean", "p50", "p95", "p99")}
        context = BatchContext(1.0, QUERY, {SPOUT: SpoutFigures(rate, 1.0, 1.0, report.input_rows)}, latency)
        return stream_samples(report, context) + slowness_samples(report.tasks or (), report.finished)

    def setup(self) -> Setup:
        """The query as the loop knows it."""
        bolts = (OperatorSetup(name, self.pool, name) for name in BOLTS)
        operators = (OperatorSetup(SPOUT, self.pool, spout=True), *bolts)
        return Setup(
            QUERY,
            operators,
            ((SPOUT, BOLTS[0]), BOLTS),
            mode="pipeline" if self.stays else "micro-batch",
            cores_per_executor=CORES,
            executors=(1, 2 * self.executors),
            can_admit=frozenset({SPOUT}),
        )

    def observed(self) -> Observed:
        """All tasks active, on executors in turn."""
        placed = tuple(str(task % self.executors) for task in range(self.pool))
        return Observed(
            routes=dict.fromkeys(BOLTS, (1.0,) * self.pool),
            route_version=1,
            executors=self.workers,
            placements=dict.fromkeys(BOLTS, placed) if self.stays else {},
            pools=dict.fromkeys(BOLTS, self.pool),
        )

    def forecasts(self) -> Forecasts:
        """One of each executor's slowness and one of the load, trusted from the start."""
        ahead = tuple(ForecastPoint(seconds, 1.0, record=Record(0.5, 1.0)) for seconds in (5.0, 15.0, 30.0))
        load = tuple(ForecastPoint(p.seconds, float(self.pool * ROWS_A_TASK), record=p.record) for p in ahead)
        by_series = {(SLOWNESS, worker): Forecast("m", ahead) for worker in self.workers}
        return Forecasts({("arrival_rate", SPOUT): Forecast("m", load), **by_series})

    def world(self, batch: int) -> World:
        """What the loop reads after the batch; the batch's samples must have been put into `latest`."""
        return World(self.setup(), self.latest.snapshot(BEGIN + batch), self.observed(), self.forecasts())


def rest_tasks(tasks: int, executors: int) -> list[dict[str, Any]]:
    """Tasks of a stage as Spark's REST interface gives them."""
    launched = datetime.fromtimestamp(BEGIN, UTC).strftime("%Y-%m-%dT%H:%M:%S.000GMT")
    shuffle = {"fetchWaitTime": 1, "recordsRead": ROWS_A_TASK, "localBytesRead": 100, "remoteBytesRead": 100}
    written = {"writeTime": 1000, "recordsWritten": ROWS_A_TASK, "bytesWritten": 100}
    metrics = {"executorRunTime": 500, "executorCpuTime": 500_000_000, "jvmGcTime": 0, "diskBytesSpilled": 0}
    metrics |= {"executorDeserializeTime": 1, "shuffleReadMetrics": shuffle, "shuffleWriteMetrics": written}
    return [
        {
            "index": number,
            "executorId": str(number % executors),
            "host": f"host{number % executors // WORKERS_A_HOST}",
            "launchTime": launched,
            "status": "SUCCESS",
            "taskMetrics": metrics,
        }
        for number in range(tasks)
    ]

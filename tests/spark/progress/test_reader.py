"""Reports of a played query: what Spark has dropped is told, and never waited for."""

import time
from datetime import UTC, datetime
from types import SimpleNamespace

from foretide.metrics.audit import audit
from foretide.spark.edges import RECEIVED, SENT
from foretide.spark.progress.executions import Executions, SparkExecutions
from foretide.spark.progress.reader import QueryReader
from spark.progress.test_executions import RUN, TASKS, execution, rest_with

LONG_AGO = 1000.0


def progress(batch, age=LONG_AGO, observed=None, rows=60):
    """Of a batch that took a second and finished `age` seconds ago."""
    return SimpleNamespace(
        batchId=batch,
        durationMs={"addBatch": 900, "triggerExecution": 1000},
        timestamp=datetime.fromtimestamp(time.time() - age - 1, UTC).isoformat(),
        numInputRows=rows,
        observedMetrics=observed or {},
        sources=[],
        stateOperators=[],
        eventTime={},
    )


class Played:
    """A query of which Spark keeps the progress that the test says."""

    runId = RUN  # noqa: N815 - as Spark calls it

    def __init__(self, *kept):
        self.recentProgress = list(kept)

    @property
    def lastProgress(self):  # noqa: N802 - as Spark calls it
        return self.recentProgress[-1] if self.recentProgress else None


def reading(query, *executions):
    rest = rest_with(*executions, **TASKS)
    reader = QueryReader(query)
    reader._executions = Executions(SparkExecutions(rest), RUN)
    return reader, rest


def test_a_batch_that_spark_has_dropped_is_reported_at_once_and_the_next_one_in_full():
    query = Played(progress(0), progress(1))
    reader, rest = reading(query, execution(9, 1))
    assert [(report.batch, report.unaudited, report.edges is None) for report in reader.reports()] == [
        (0, True, True),
        (1, False, False),
    ]
    query.recentProgress.append(progress(2))
    rest.has(execution(9, 1), execution(10, 2))
    assert [(report.batch, report.unaudited) for report in reader.reports()] == [(2, False)]


def test_a_batch_whose_figures_are_only_late_is_waited_for():
    query = Played(progress(0, age=0.0))
    reader, rest = reading(query)
    assert (reader.reports(), reader.waiting) == ([], True)
    rest.has(execution(0, 0))
    assert [report.unaudited for report in reader.reports()] == [False]


def test_a_batch_without_rows_that_did_no_work_is_no_batch_that_was_missed():
    reader, _ = reading(Played(progress(0, rows=0)), execution(4, 0, jobs=()))
    assert [report.unaudited for report in reader.reports()] == [False]


def test_progress_that_spark_has_dropped_leaves_a_gap_in_the_reports():
    query = Played(progress(0))
    reader, _ = reading(query, *(execution(4 + batch, batch) for batch in range(9)))
    assert [report.batch for report in reader.reports()] == [0]
    query.recentProgress[:] = [progress(batch) for batch in (6, 7, 8)]
    assert [(report.batch, report.unaudited) for report in reader.reports()] == [(6, False), (7, False), (8, False)]


def observed(sent, received):
    return {f"{SENT}parse": {"rows": sent, "ids": 7}, f"{RECEIVED}parse": {"rows": received, "ids": 5}}


def test_ids_that_differ_are_an_alarm_only_if_it_is_known_that_nothing_was_retried():
    stages = {"jobs/5": {"stageIds": [3]}, "stages/3": [{"attemptId": 0, "numFailedTasks": 0, "numKilledTasks": 0}]}

    def found(*executions, **answers):
        reader, rest = reading(Played(progress(0, observed=observed(60, 59))), *executions)
        rest.answers |= answers
        (report,) = reader.reports()
        return [failure.kind for failure in audit(report, {}, routed=False)]

    assert found(execution(4, 0), **stages) == ["ids-differ"]
    retried = [{"attemptId": 1, "numFailedTasks": 0, "numKilledTasks": 0}]
    assert found(execution(4, 0), **(stages | {"stages/3": retried})) == []
    assert found(execution(9, 1)) == []  # Spark has dropped the batch: nobody can tell

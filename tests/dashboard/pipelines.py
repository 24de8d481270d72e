"""A pipeline that the tests of the dashboard look at: a control folder and a store as Foretide itself writes them."""

import os
import time

from foretide.control.actions.registry import SetSplit
from foretide.control.decisions.decision import Decision, Wish
from foretide.control.history import RecordedForecasts, RecordedSeries, RecordedWorld
from foretide.control.target_record import TargetRecord
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target
from foretide.control_folder.facts import PipelineFacts
from foretide.control_folder.folder import ControlFolder, ControlStatus, PipelineStatus, RaisedAlarm
from foretide.metrics.metric import Sample
from foretide.planning.advice import Advice
from foretide.status.pipelines import Running, announce, default_store
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord

SETUP = Setup(
    "shop",
    (OperatorSetup("lines", spout=True), OperatorSetup("work", 3, "work"), OperatorSetup("join", 2, stateful=True)),
    (("lines", "work"), ("work", "join")),
    mode="pipeline",
    executors=(1, 4),
)
FIGURES = {
    ("batch", "shop"): 7.0, ("input_rows_per_second", "shop"): 120.0, ("latency_p50_ms", "shop"): 200.0,
    ("latency_p95_ms", "shop"): 500.0, ("latency_p99_ms", "shop"): 900.0, ("total_lag", "shop"): 4.0,
    ("arrival_rate", "lines"): 120.0, ("arrival_rate", "work"): 120.0, ("arrival_rate", "join"): 60.0,
    ("service_time_ms", "lines"): 0.5, ("service_time_ms", "work"): 5.0, ("service_time_ms", "join"): 2.0,
    ("utilization", "work"): 0.6, ("capacity", "work"): 0.8, ("capacity", "join"): 0.2, ("active_tasks", "work"): 2.0,
    ("selectivity", "lines"): 1.0, ("flow_fraction", "lines->work"): 1.0, ("flow_fraction", "work->join"): 0.5,
    ("worker_slowness", "0"): 1.0, ("worker_slowness", "1"): 2.5, ("worker_heap_bytes", "0"): 1e8,
    ("worker_heap_bytes", "1"): 2e8, ("machine_cpu_busy_percent", "host-a"): 90.0,
}  # fmt: skip


def announce_pipeline(folder, *, name="shop", edge="work", now=None, decided=True, pid=None):
    """A running pipeline with a control loop, samples, forecasts and decisions; returns its control folder."""
    now = time.time() if now is None else now
    made = ControlFolder(str(folder / name))
    made.change_routes(lambda table: table.declare(edge, pool=3))
    made.status.write(PipelineFacts(name, {"lines": True}, {edge: 3}))
    made.status.write(PipelineStatus(7, now, 1234, 1, raised=(RaisedAlarm("slow-worker", "warning", "1"),)))
    target = Target(2.0)
    record = TargetRecord(target).with_measured(0.9, now)
    tip = Advice("shuffle partitions", "a batch would be 0.3 s shorter", 0.3, 0.2, "set spark.sql.shuffle.partitions=4")
    loop = ControlStatus(
        now, "act", ("bypass",), target, workers={"0": "host-a", "1": "host-b"}, record=record, advice=(tip,)
    )
    made.status.write(loop)
    with MetricStore.open(default_store(made.location, name)) as store:
        steps = [
            Sample(m, name if s == "shop" else s, now - back, v) for (m, s), v in FIGURES.items() for back in (2, 1)
        ]
        store.write(name, steps)
        routes, hosts = {"work": (1.0, 1.0, 1.0)}, {"0": "host-a", "1": "host-b"}
        observed = Observed(routes, 1, hosts, frozenset({"1"}))
        store.write_setups(name, [RecordedWorld(now - 2, SETUP, target, observed, ("bypass",))])
        bounds = {0.1: (100.0, 90.0), 0.9: (150.0, 170.0)}
        ahead = RecordedSeries("arrival_rate", "lines", "ensemble", (5.0, 10.0), (125.0, 130.0), bounds)
        store.write_forecasts(name, [RecordedForecasts(now - 1, (ahead,))])
        wish = Wish("bypass", SetSplit("work", (4.0, 3.0, 1.0)), "worker 1 is slow")
        if decided:
            store.write_decisions(name, [Decision(5, now - 1, name, wishes=(wish,), chosen=(wish,), target=target)])
        store.write_alarms(name, [AlarmRecord(now - 1, "slow-worker", "warning", "1", "worker 1 is slow", "")])
    announce(Running(name, pid or os.getpid(), made.location))
    return made

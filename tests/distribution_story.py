"""A routed topology under control, with whatever Foretide is on the path: prints what came of it as JSON."""

import json
import tempfile

import foretide as ft
from foretide.apps.experiment import is_over, replay_of
from foretide.workloads.requests import RequestLines


def main():
    spark = ft.session("local[2]")
    folder = tempfile.mkdtemp(prefix="foretide-distribution-")
    lines = ft.Replay(RequestLines(seed=7), ft.Curve.constant(500, seconds=4), max_rows=400)
    parse = ft.Bolt("parse", lambda df: df.selectExpr("row"), [ft.From("requests", ft.Dynamic(by=("row",)))], pool=3)
    topology = ft.Topology("distribution", [ft.Spout("requests", lines)], [parse])
    pipeline = ft.submit(spark, topology, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint")
    for _ in range(600):
        if is_over(pipeline, replay_of(topology)) or not pipeline.running:
            break
        pipeline.wait(0.2)
    pipeline.stop()
    pipeline.raise_failure()
    told = {
        "foretide": ft.__file__,
        "rows": pipeline.output("parse").distinct().count(),
        "expected": replay_of(topology).total_rows,
        "alarms": [alarm.message for alarm in pipeline.alarms],
    }
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main()

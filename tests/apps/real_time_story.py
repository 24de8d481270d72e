"""Every application that has a form for Kafka, in real-time mode: `python real_time_story.py FOLDER SERVERS`.

Its edge is split anew midway. The last line has, for each application, how its results compare with the truth.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import foretide as ft
from foretide.apps.app import APPS, RATES, Load, find_app
from foretide.cli.running.kafka_results import verify
from foretide.cli.running.kafka_run import Brokers, KafkaRun, watch
from foretide.errors import EnvironmentNotReadyError

LOAD = Load(seconds=4, rate=100, seed=5)


def can_run(app):
    with contextlib.suppress(EnvironmentNotReadyError):
        app.check()
        return True
    return False


def told(spark, app, folder, servers):
    load = replace(LOAD, rate=min(LOAD.rate, RATES.get(app.name, LOAD.rate)))
    run = KafkaRun.start(spark, app, load, folder, ft.RunSettings(), Brokers(servers))
    versions = []

    def turn():
        if not versions and time.time() - run.origin > LOAD.seconds / 2:
            versions.append(run.pipeline.split(app.edge, app.ratio).version)

    with run:
        watch([run], turn)
        in_force = bool(versions) and run.pipeline.await_routes(versions[0], 60.0)
        run.stop()
        return {**asdict(verify(run)), "in_force": in_force, "letters": run.pipeline.output("dead_letters").count()}


def main(folder, servers):
    spark = ft.session("local[32]", "real-time-story", {"spark.sql.shuffle.partitions": "2"}, mode="real-time")
    apps = [app for app in map(find_app, APPS) if app.real_time is not None and can_run(app)]
    story = {app.name: told(spark, app, Path(folder) / app.name, servers) for app in apps}
    spark.stop()
    print(json.dumps(story))


if __name__ == "__main__":
    main(*sys.argv[1:])

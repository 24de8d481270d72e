"""A restart that a person requests from a terminal, on a real query: it is made once, or refused with a reason."""

from __future__ import annotations

from typer.testing import CliRunner

import foretide as ft
from foretide.cli.main import app
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.control_folder.orders import RestartOrder
from foretide.workloads.keyed import Keyed
from helpers import wait_for

SETTINGS = ft.Settings(  # a loop that would ask again after a second for what was not observed
    guards=GuardSettings(cooldown=0.0), evaluation=EvaluationSettings(roll_back=False, request_timeout=1.0)
)


def topology():
    source = ft.Replay(Keyed(seed=1), ft.Curve.constant(1_000_000, 1), paced=False, max_rows=50)
    bolt = ft.Bolt("work", lambda df: df, [ft.From("numbers", ft.Dynamic(by=("row",)))], pool=2)
    return ft.Topology("ordered", [ft.Spout("numbers", source)], [bolt])


def test_one_order_is_one_restart_and_one_for_nothing_is_refused(start):
    pipeline = start(
        topology(), trigger="200 milliseconds", monitoring=ft.MonitorSettings(workers_every=0, machines_every=0)
    )
    loop = ft.control(pipeline, ["replicas"], settings=SETTINGS)
    folder = pipeline.control_folder
    wait_for(lambda: loop.cycles >= 2 and folder.status.control().workers, pipeline)

    def order(*words):
        return CliRunner().invoke(app, [*words, "--control-folder", folder.location])

    def see_cycles(count):
        seen = loop.cycles
        wait_for(lambda: loop.cycles >= seen + count)

    assert order("restart", "--pool", "work=3").exit_code == 0
    wait_for(lambda: pipeline.restarts == 1)
    see_cycles(4)
    assert pipeline.restarts == 1
    assert folder.status.facts().pools == {"work": 3}
    assert folder.orders.last_restarted() == folder.orders.restart().id
    assert "there are: work (3 tasks)" in str(order("restart", "--pool", "nowhere=5").exception)
    folder.orders.request_restart(RestartOrder("of another version", pools={"nowhere": 5}))
    wait_for(lambda: any("no edge 'nowhere'" in problem for problem in loop.problems), pipeline)
    see_cycles(2)
    assert pipeline.restarts == 1

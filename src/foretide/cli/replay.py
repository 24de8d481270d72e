"""`foretide replay`: what policies, with the settings in force, would have decided over the history in a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import typer

from foretide.cli.console import (
    AppOption,
    Console,
    DurationOption,
    JsonOption,
    PlotOption,
    SinceOption,
    StoreOption,
    Text,
    check_plot,
    print_json,
    progress_bar,
)
from foretide.cli.decisions import add_decision, as_values, moment, table_of_decisions, tell_problems
from foretide.cli.settings import ConfigOption, PolicyOption, SetOption, chosen_settings
from foretide.control.history import Advice, advice
from foretide.control.history import replay as replay_policies
from foretide.control.world.world import World
from foretide.reports.plots import ReplayPoint, draw_replay
from foretide.status.stored import Recording, open_store

_NOTE = "Advice is not carried out, so it is repeated while its cause lasts."


def replay(
    app: AppOption = None,
    store: StoreOption = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    latency: Annotated[
        float | None, DurationOption(help="Latency target, such as 2s, instead of the recorded one.")
    ] = None,
    since: SinceOption = None,
    plot: PlotOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Replay policies over the recorded history of a pipeline.

    Shows what they would have decided. The pipeline and its store are not changed.
    """
    check_plot(plot)
    _check_no_target(sets or [])
    settings = chosen_settings(config, sets, policy)
    control = settings.to_control()
    policies = [each.name for each in control.policies]
    problems: list[str] = []
    with open_store(app, store) as (found, name):
        begin = None if since is None else time.time() - since
        recording = Recording.of(found, name, since=begin, on_problem=problems.append)
        points: list[ReplayPoint] = []
        with progress_bar(f"replaying {name}") as progress:
            worlds = recording.worlds(latency=latency, smoothing=settings.monitoring.smoothing)
            advised = advice(replay_policies(control, _collect_points(worlds, points, len(recording.ends), progress)))
    if plot is not None:
        draw_replay(points, advised, plot)
    if as_json:
        print_json({**_values(name, policies, points, advised), "problems": problems})
        return
    _show(name, policies, points, advised)
    tell_problems(problems)


def _check_no_target(sets: list[str]) -> None:
    """A target among the settings would be ignored, so it is refused."""
    if any(each.startswith("target.") for each in sets):
        hint = "a replay uses the recorded target; change it with --latency"
        raise typer.BadParameter(hint, param_hint="--set")


def _collect_points(
    worlds: Iterable[World], points: list[ReplayPoint], count: int, progress: Callable[[float], None]
) -> Iterator[World]:
    """The worlds; the points of the plot are collected on the way."""
    for world in worlds:
        points.append(ReplayPoint.of(world))
        progress(len(points) / count)
        yield world


def _values(name: str, policies: list[str], points: list[ReplayPoint], advised: list[Advice]) -> dict[str, object]:
    return {
        "pipeline": name,
        "policies": policies,
        "batches": len(points),
        "from": points[0].at,
        "until": points[-1].at,
        "advice": [{"times": each.times, "last": each.last, "decision": as_values(each.decision)} for each in advised],
    }


def _show(name: str, policies: list[str], points: list[ReplayPoint], advised: list[Advice]) -> None:
    console = Console()
    period = f"{len(points):,} batches from {moment(points[0].at)} to {moment(points[-1].at)}"
    title = f"{name}: {', '.join(policies)} over {period}"
    if not advised:
        console.print(Text(f"{title}: no action would have been taken"))
        return
    table = table_of_decisions(title, "advised")
    for each in advised:
        times = "once" if each.times == 1 else f"{each.times} times"
        add_decision(table, each.decision, Text(times, style="dim"))
    console.print(table)
    console.print(Text(_NOTE, style="dim"))

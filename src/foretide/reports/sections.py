"""The sections of a report on one run: what happened, latency, load, decisions, workers and cost."""

from __future__ import annotations

from collections.abc import Iterator

from foretide.control.target_record import describe_target, verdict
from foretide.dates import local_date
from foretide.formatting import format_duration, format_number
from foretide.html import Html, join, tag
from foretide.reports import tables
from foretide.reports.charts import WIDTH, Chart, HeatMap, Line, Mark, Strip, draw_chart, draw_heat_map, shifted
from foretide.reports.summary import Summary, executors_over_time, latency_of
from foretide.status.run_record import FORECAST_LEVEL, TAKEN, Interval, Points, RunRecord

_WEAKEST, _STRONGEST = 1.0, 4.0
"""Slowness that is not coloured, and that which is coloured most."""

_MANY_MARKS = 60
_JUDGED = "Judged by the target of the other run. "


def section(run: RunRecord, summary: Summary, anchor: str, top: float) -> Html:
    """All of a run; `top` is the highest latency of all runs of the report, so that their charts have one scale."""
    title = tag("h2", run.name, id=f"{anchor}-title", class_="first" if anchor == "run-1" else None)
    return tag(
        "section",
        title,
        what_happened(run, summary),
        tiles(summary),
        latency_part(run, summary, top),
        load_part(run, summary),
        decisions_part(run),
        workers_part(run),
        cost_part(run, summary),
        operators_part(run),
        alarms_part(run),
        id=anchor,
        aria_labelledby=f"{anchor}-title",
    )


def what_happened(run: RunRecord, summary: Summary) -> Html:
    """The run in sentences."""
    sentences = [" ".join(_story(run, summary))]
    judged = [f"{_JUDGED if each.borrowed else ''}At the end: {verdict(each.record)}." for each in summary.targets]
    problems = [tag("p", problem, class_="note") for problem in run.problems]
    return join(tag("p", *sentences, class_="lead"), *(tag("p", each) for each in judged), *problems)


def _story(run: RunRecord, summary: Summary) -> Iterator[str]:
    setup = run.setup_at(run.ended)
    how = "measurements in real time" if setup is not None and setup.setup.mode == "pipeline" else "batches"
    took = f"{run.rows:,} tuples were processed in {run.batches:,} {how} within {format_duration(run.seconds)}"
    yield f"From {local_date(run.began)} on, {took}."
    if setup is None:
        yield "No control loop was attached."
        return
    policies = ", ".join(setup.policies) or "without policies"
    yield f"The control loop ({policies}) had to hold: {describe_target(setup.target)}."
    counts = summary.decisions
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.outcomes.items())
    made = f"It made {_times(counts.changes, 'change')}" if counts.changes else "It changed nothing"
    yield f"{made}{f' (effects: {outcomes})' if outcomes else ''}."
    if counts.advised:
        yield f"It advised {_times(counts.advised, 'change')}, and carried out none of these."
    if counts.stopped:
        yield f"Guards stopped what it wanted in {_times(counts.stopped, 'cycle')}."


def _times(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def tiles(summary: Summary) -> Html:
    """The main figures."""
    return tag("dl", *(_tile(*each) for each in _tiles(summary)), class_="tiles")


def _tiles(summary: Summary) -> Iterator[tuple[str, str, str, str | None]]:
    cost, missed, forecasts = summary.cost, summary.missed, summary.forecasts
    highest = f"highest {_duration(summary.worst_latency)}"
    yield f"latency {summary.quantile}, median", _duration(summary.median_latency), highest, None
    if missed is not None:
        of = f"{format_duration(missed[0])} of {format_duration(missed[1])}"
        yield "time above the target", f"{100 * missed[0] / missed[1]:.0f} %", of, "bad" if missed[0] else "good"
    yield "executor-seconds", format_number(cost.executor_seconds), f"at most {_times(cost.most, 'executor')}", None
    if cost.saved_seconds:
        saved = 100 * cost.saved_seconds / (cost.executor_seconds + cost.saved_seconds)
        yield "saved by fewer executors", f"{saved:.0f} %", f"against {cost.most} all the time", None
    if forecasts is not None:
        naive = f"last value: {100 * forecasts.last_value:.1f} %"
        yield "error of load forecasts", f"{100 * forecasts.error:.1f} %", naive, None


def _tile(name: str, figure: str, detail: str, look: str | None) -> Html:
    return tag("div", tag("dt", name), tag("dd", tag("span", figure, class_=look), tag("small", detail)))


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)


def latency_chart(
    run: RunRecord, summary: Summary, top: float, title: str = "Latency of tuples", width: int = WIDTH
) -> Chart:
    """Latency over time with the target and the actions."""
    unit, factor = ("ms", 1000.0) if top < 1.0 else ("s", 1.0)
    main, half = (_scaled(shifted(latency_of(run, name), run.began), factor) for name in (summary.quantile, "p50"))
    lines = (Line(summary.quantile, main), Line("p50", half, "second"))
    return Chart(
        title,
        unit,
        run.seconds,
        lines if summary.quantile != "p50" else lines[:1],
        tuple(_limits(run, summary, factor)),
        f"target {summary.quantile}",
        tuple(marks(run)),
        width=width,
        may_log=True,
        top=top * factor,
    )


def _scaled(points: Points, factor: float) -> Points:
    return tuple((at, value * factor) for at, value in points)


def _limits(run: RunRecord, summary: Summary, factor: float) -> Iterator[tuple[float, Interval]]:
    for place, each in enumerate(summary.targets, 1):
        until = summary.targets[place].since if place < len(summary.targets) else run.ended
        yield (each.record.target.latency or 0.0) * factor, (max(each.since, run.began) - run.began, until - run.began)


def marks(run: RunRecord) -> Iterator[Mark]:
    """What the control loop changed; routine corrections only where these are few."""
    acted = [each for each in run.decisions if each.acted]
    if len(acted) > _MANY_MARKS:
        acted = [each for each in acted if not all(wish.routine for wish in each.chosen)]
    for each in acted:
        yield Mark(each.at - run.began, f"#{each.id}", "; ".join(action.describe() for action in each.actions))


def latency_part(run: RunRecord, summary: Summary, top: float) -> Html:
    """The picture of latency."""
    chart = latency_chart(run, summary, top)
    note = tag(
        "p",
        "Dotted lines are changes by the control loop; their numbers are those of the decisions below.",
        class_="soft",
    )
    return join(tag("h3", "Latency"), draw_chart(chart), note if chart.marks else None)


def load_part(run: RunRecord, summary: Summary) -> Html:
    """The load, what was forecast of it, and what waited."""
    load = Line("taken" if run.load == run.query.get(TAKEN) else "due", shifted(run.load, run.began), "second")
    lines = [load]
    if run.forecasts:
        ahead = summary.forecasts.ahead if summary.forecasts else 0.0
        means = shifted(
            tuple(sorted((each.at, each.mean) for each in run.forecasts if each.at <= run.ended)), run.began
        )
        highs = shifted(tuple((each.at, each.high) for each in run.forecasts if each.high is not None), run.began)
        name = f"forecast {format_duration(ahead)} earlier, with its {FORECAST_LEVEL:.0%} bound"
        lines.append(Line(name, means, "expected", high=highs))
    backlog = shifted(run.query.get("total_lag", ()), run.began)
    waiting = Chart("Tuples that wait", "tuples", run.seconds, (Line("backlog", backlog, "first"),), height=150)
    chart = Chart("Load and forecast" if run.forecasts else "Load", "tuples/s", run.seconds, tuple(lines))
    return join(
        tag("h3", "Load and forecast"),
        tag("p", _forecast_words(summary)),
        draw_chart(chart),
        draw_chart(waiting) if any(value for _, value in backlog) else None,
    )


def _forecast_words(summary: Summary) -> str:
    found = summary.forecasts
    if found is None:
        return "No forecast of the load was recorded that could be compared with what came."
    better = "less than" if found.error < found.last_value else "no less than"
    bound = "" if found.below_high is None else (
        f" The load stayed below the upper bound in {100 * found.below_high:.0f} % of the cases; "
        f"{100 * FORECAST_LEVEL:.0f} % are due."
    )  # fmt: skip
    return (
        f"{found.count:,} forecasts of the load (by {', '.join(found.models)}), made {format_duration(found.ahead)} "
        f"ahead, were off by {100 * found.error:.1f} % on average, {better} expecting the last value, which was off by "
        f"{100 * found.last_value:.1f} %.{bound}"
    )


def decisions_part(run: RunRecord) -> Html:
    """Decisions with why, expected and achieved."""
    chosen = [each for each in run.decisions if each.chosen]
    if not chosen:
        said = "None was made: no control loop was attached." if not run.setups else "Nothing was changed or advised."
        return join(tag("h3", "Decisions"), tag("p", said))
    return join(tag("h3", "Decisions"), tables.decisions_table(run, chosen))


def workers_part(run: RunRecord) -> Html | None:
    """Which worker was slow when, and when it got no tasks."""
    if not run.workers:
        return None
    present, out = run.in_service(), run.taken_out()
    strips = tuple(
        Strip(
            name,
            shifted(series.get("worker_slowness", ()), run.began),
            _from_start(out.get(name, ()), run),
            _from_start(present.get(name, ()), run),
        )
        for name, series in sorted(run.workers.items())
    )
    unit = "time of its tasks over what the same tuples take on average"
    heat = HeatMap(
        "Slowness of workers", unit, run.seconds, strips, _WEAKEST, _STRONGEST, "out of service", tuple(marks(run))
    )
    measured = any(strip.points for strip in strips)
    return join(tag("h3", "Workers"), draw_heat_map(heat) if measured else None, tables.workers_table(run))


def _from_start(intervals: tuple[Interval, ...], run: RunRecord) -> tuple[Interval, ...]:
    return tuple((start - run.began, end - run.began) for start, end in intervals)


def cost_part(run: RunRecord, summary: Summary) -> Html:
    """Executors over time, and what that comes to."""
    cost = summary.cost
    counts = shifted(executors_over_time(run), run.began)
    words = f"Executors were there for {format_number(cost.executor_seconds)} executor-seconds"
    if cost.saved_seconds:
        whole = format_number(cost.executor_seconds + cost.saved_seconds)
        words += f", at most {cost.most} at a time. With {cost.most} for the whole run it would have been {whole}: "
        words += f"{format_number(cost.saved_seconds)} were saved."
    else:
        words += f": {_times(cost.most, 'executor')} for the whole run."
    if cost.out_seconds:
        words += f" In {format_number(cost.out_seconds)} of them an executor was out of service and got no tasks."
    if cost.cpu_seconds is not None:
        words += f" The workers used {format_number(cost.cpu_seconds)} CPU-seconds."
    chart = Chart("Executors", "executors", run.seconds, (Line("there", counts, "third", steps=True),), height=130)
    return join(tag("h3", "Cost"), tag("p", words), draw_chart(chart) if cost.saved_seconds else None)


def operators_part(run: RunRecord) -> Html | None:
    """What the operators were like."""
    found = tables.operators_table(run)
    return None if found is None else join(tag("h3", "Operators"), found)


def alarms_part(run: RunRecord) -> Html:
    """The alarms."""
    return join(tag("h3", "Alarms"), tables.alarms_table(run) if run.alarms else tag("p", "None was raised."))

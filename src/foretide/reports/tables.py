"""Tables of a report: decisions, operators, workers, alarms, and runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from foretide.control.decisions.decision import Decision
from foretide.control.decisions.explain import in_unit
from foretide.formatting import format_duration, format_number
from foretide.html import Child, Html, join, tag
from foretide.reports.scales import elapsed
from foretide.reports.summary import Summary, cpu_of
from foretide.status.run_record import Interval, Points, RunRecord
from foretide.store.records import AlarmRecord

MOST_ROWS = 100
_FEW_COLUMNS = 3


def table(caption: str | None, heads: Sequence[str], rows: Iterable[Sequence[Child]], *, numbers: int = 0) -> Html:
    """A table; its first column names the rows, and the last `numbers` columns are figures."""
    first_number = len(heads) - numbers

    def cell(place: int, content: Child) -> Html:
        look = "number" if place >= first_number else None
        return tag("th", content, scope="row") if place == 0 else tag("td", content, class_=look)

    head = tag("tr", *(tag("th", text, scope="col", class_="number" if place >= first_number else None)
                       for place, text in enumerate(heads)))  # fmt: skip
    body = [tag("tr", *(cell(place, content) for place, content in enumerate(row))) for row in rows]
    title = None if caption is None else tag("caption", caption)
    look = "wide" if len(heads) > _FEW_COLUMNS else "whole"
    whole = tag("table", title, tag("thead", head), tag("tbody", *body), class_=look)
    return tag("div", whole, class_="scroll", tabindex="0", role="group", aria_label=caption or heads[0])


def decisions_table(run: RunRecord, decisions: Sequence[Decision]) -> Html:
    """Each decision with its reason, what was expected and what was achieved."""
    shown = decisions[-MOST_ROWS:]
    left_out = len(decisions) - len(shown)
    caption = f"The last {MOST_ROWS} of {len(decisions):,} decisions" if left_out else "Decisions, in the order of time"
    heads = ("decision", "after", "change", "why", "expected", "achieved")
    return table(caption, heads, [_decision(run, each) for each in shown])


def _decision(run: RunRecord, decision: Decision) -> list[Child]:
    advice = "advice: " if not decision.acted else ""
    expected = dict.fromkeys(wish.expected.words for wish in decision.chosen if wish.expected)
    return [
        f"#{decision.id}",
        elapsed(decision.at - run.began, run.seconds),
        lines(f"{advice}{wish.action.describe()}" for wish in decision.chosen),
        lines(f"{wish.policy}: {wish.reason}" for wish in decision.chosen),
        lines(expected) if expected else "-",
        achieved(decision),
    ]


def achieved(decision: Decision) -> Html:
    """The effect of a decision, and after how long it was in force."""
    effect = decision.effect
    if effect is None:
        return tag("span", "not known" if decision.acted else "not carried out", class_="soft")
    look = {"better": "good", "worse": "bad", "never observed": "bad"}.get(effect.outcome)
    figures = ""
    if effect.before is not None and effect.after is not None:
        figures = f"{in_unit(effect.metric, effect.before)} before, {in_unit(effect.metric, effect.after)} after"
    after = "" if effect.in_force_after is None else f"in force after {format_duration(effect.in_force_after)}"
    return join(
        tag("strong", effect.outcome, class_=look), *(join(tag("br"), part) for part in (figures, after) if part)
    )


def lines(texts: Iterable[str]) -> Html:
    """Texts, one below the other, each once."""
    parts = [part for text in dict.fromkeys(texts) for part in (tag("br"), text)]
    return join(*parts[1:])


def operators_table(run: RunRecord) -> Html | None:
    """What each operator was like on average, and its highest capacity."""
    rows = [
        (
            name,
            _figure(series.get("arrival_rate", ())),
            _figure(series.get("service_time_ms", ())),
            _percent(series.get("utilization", ()), fmean),
            _percent(series.get("capacity", ()), max),
        )
        for name, series in run.operators.items()
        if "arrival_rate" in series or "capacity" in series
    ]
    heads = ("operator", "tuples/s", "service time, ms", "utilization", "highest capacity")
    return table("Operators: means over the run", heads, rows, numbers=4) if rows else None


def _figure(points: Points, of: Callable[[Iterable[float]], float] = fmean) -> str:
    return format_number(of(value for _, value in points), 3) if points else "-"


def _percent(points: Points, of: Callable[[Iterable[float]], float]) -> str:
    return _figure(tuple((at, 100 * value) for at, value in points), of) + (" %" if points else "")


def workers_table(run: RunRecord) -> Html | None:
    """How long each worker was there, and how it fared."""
    present, out = run.in_service(), run.taken_out()
    rows = [
        (
            name,
            _seconds(present.get(name, ())),
            _seconds(out.get(name, ())),
            _figure(series.get("worker_tuple_execution_time_ms", ())),
            _figure(series.get("worker_slowness", ()), max),
            _percent(tuple((at, value / 100) for at, value in cpu_of(series)), fmean),
            _percent(tuple((at, value / 100) for at, value in series.get("worker_cpu_wait_percent", ())), max),
        )
        for name, series in sorted(run.workers.items())
    ]
    heads = (
        "worker", "present", "out of service", "ms a tuple, mean", "highest slowness", "CPU, mean of one core",
        "waited for a core, most",
    )  # fmt: skip
    return table("Workers", heads, rows, numbers=6) if rows else None


def _seconds(intervals: Sequence[Interval]) -> str:
    return format_duration(sum(end - start for start, end in intervals)) if intervals else "-"


def alarms_table(run: RunRecord) -> Html:
    """The alarms, and how often each was raised about a subject."""
    groups: dict[tuple[str, str], list[AlarmRecord]] = {}
    for alarm in run.alarms:
        groups.setdefault((alarm.rule, alarm.subject), []).append(alarm)
    rows = [
        (rule, found[0].severity, elapsed(max(found[0].at - run.began, 0.0), run.seconds), f"{len(found):,}",
         found[-1].message)
        for (rule, _), found in list(groups.items())[-MOST_ROWS:]
    ]  # fmt: skip
    return table("Alarms by rule and subject", ("rule", "severity", "first after", "times", "message, the last"), rows)


def comparison_table(runs: Sequence[RunRecord], summaries: Sequence[Summary]) -> Html:
    """Figures of several runs side by side; changes are against the first one."""
    rows = [
        ("duration", *(format_duration(run.seconds) for run in runs)),
        ("tuples", *(f"{run.rows:,}" for run in runs)),
        *((name, *_beside(values, show)) for name, values, show in _compared(summaries)),
        ("decisions that changed something", *(f"{each.decisions.changes:,}" for each in summaries)),
        ("alarms", *(f"{len(run.alarms):,}" for run in runs)),
    ]
    caption = "Side by side; in brackets the change against the first run"
    return table(caption, ("", *(run.name for run in runs)), rows, numbers=len(runs))


def _compared(summaries: Sequence[Summary]) -> Iterator[tuple[str, list[float | None], Callable[[float], str]]]:
    quantile = summaries[0].quantile
    same = all(each.quantile == quantile for each in summaries)
    latency = f"latency {quantile}" if same else "latency of the target's quantile"
    yield f"{latency}, median", [each.median_latency for each in summaries], format_duration
    yield f"{latency}, highest", [each.worst_latency for each in summaries], format_duration
    yield (
        "time above the target",
        [None if each.missed is None else each.missed[0] for each in summaries],
        format_duration,
    )
    yield "executor-seconds", [each.cost.executor_seconds for each in summaries], format_number
    yield "executor-seconds for a million tuples", [each.cost.per_million_rows for each in summaries], format_number
    yield "CPU-seconds of the workers", [each.cost.cpu_seconds for each in summaries], format_number


def _beside(values: Sequence[float | None], show: Callable[[float], str]) -> Iterator[str]:
    first = values[0]
    for place, value in enumerate(values):
        if value is None:
            yield "-"
            continue
        change = f" ({100 * (value - first) / first:+.0f} %)" if place and first else ""
        yield f"{show(value)}{change}"
